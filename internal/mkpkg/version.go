package main

import (
	"fmt"
	"regexp"
	"time"
)

// describeForm is git describe's "v1.2.3" and "v1.2.3-45-gabcdef0", each perhaps with "-dirty". A dot is wanted, because a
// commit's short name may be all digits.
var describeForm = regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+)+)(?:-([0-9]+)-g[0-9a-f]+)?(-dirty)?$`)

// packageVersion makes a version that pkg-version(8) can compare from what the build says it is: the tag, then the number
// of commits since, then 1 for changes that are not committed. Without any tag it is the commit's time, which grows as
// well and is below every release.
func packageVersion(describe string, built time.Time) string {
	match := describeForm.FindStringSubmatch(describe)
	if match == nil {
		return fmt.Sprintf("0.0.%s", built.UTC().Format("20060102150405"))
	}
	version, commits, dirty := match[1], match[2], match[3] != ""
	if commits == "" && dirty {
		commits = "0"
	}
	if commits != "" {
		version += "." + commits
	}
	if dirty {
		version += ".1"
	}
	return version
}
