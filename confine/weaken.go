//go:build weaken

package confine

import (
	"os"
	"strings"
)

// weakening leaves out one layer, to show that the escape suite and the verification would notice. Programs for use are built
// without this file.
type weakening struct {
	Weaken Layer `json:"weaken,omitempty"`
	Verify bool  `json:"-"` // look at the layer all the same
}

func (w weakening) off(l Layer) bool { return w.Weaken == l }

func (w weakening) unverified(l Layer) bool { return w.Weaken == l && !w.Verify }

// weakened reads PLAYGROUND_WEAKEN: the name of a layer, with "+verify" after it to verify it nevertheless.
func weakened() weakening {
	name, verify := strings.CutSuffix(os.Getenv("PLAYGROUND_WEAKEN"), "+verify")
	return weakening{Weaken: Layer(name), Verify: verify}
}
