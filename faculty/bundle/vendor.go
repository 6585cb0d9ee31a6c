package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"playground/fault"
)

// vendor fetches a snapshot's dependencies into it, with the host's own tool and as this user. Both tools check what they get
// against the lock file and run nothing of it.
func vendor(ctx context.Context, b Builder, folder string, log io.Writer) error {
	fetch := vendorGo
	if b == BuilderCargo {
		fetch = vendorCargo
	}
	if err := fetch(ctx, folder, log); err != nil {
		return err
	}
	return opened(folder)
}

// vendorGo refuses modules that are folders outside of the source first: the fingerprint does not cover them.
func vendorGo(ctx context.Context, folder string, log io.Writer) error {
	text, err := tool(ctx, folder, log, "go", "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var module struct {
		Replace []struct {
			New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(text, &module); err != nil {
		return fault.Wrap(fault.Internal, err, "cannot understand what go says of go.mod")
	}
	for _, r := range module.Replace {
		if r.New.Version == "" && !filepath.IsLocal(r.New.Path) {
			return fault.New(fault.Invalid, "go.mod replaces a module by a folder outside of the source, %q", r.New.Path).
				WithHint("build from a folder that holds both, or put the dependencies into the source's vendor folder yourself")
		}
	}
	_, err = tool(ctx, folder, log, "go", "mod", "vendor")
	return err
}

// vendorCargo runs cargo in the root folder. Both cargo and rustup look for their configuration from the working folder up, and
// the one in a source can name programs for them to run.
func vendorCargo(ctx context.Context, folder string, log io.Writer) error {
	to := filepath.Join(folder, "vendor")
	text, err := tool(ctx, "/", log, "cargo", "vendor", "--locked", "--manifest-path", filepath.Join(folder, "Cargo.toml"), to)
	if err != nil {
		return err
	}
	// What cargo prints is the configuration that makes builds use the folder, which lies elsewhere there.
	text = bytes.ReplaceAll(text, []byte(to), []byte("vendor"))
	config := filepath.Join(folder, ".cargo", "config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(config, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append([]byte("\n"), text...))
	return errors.Join(err, f.Close())
}

// tool runs one of the host's tools and returns what it prints; its messages go to log.
func tool(ctx context.Context, dir string, log io.Writer, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, log
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOFLAGS=", "GOWORK=off")
	cmd.WaitDelay = 5 * time.Second // git, say, may outlive it and keep log open
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot fetch the dependencies with %q", strings.Join(cmd.Args, " ")).
			WithHint("put them into the source's vendor folder yourself and leave --vendor out")
	}
	return out, nil
}

// opened makes what is below readable to the builder, whose user is another one, whatever this process's umask.
func opened(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || path == folder: // the folder itself is opened when all is in it
			return err
		case entry.IsDir():
			return os.Chmod(path, 0o755)
		case entry.Type() == 0:
			info, err := entry.Info()
			if err != nil {
				return err
			}
			return os.Chmod(path, 0o644|info.Mode().Perm()&0o111)
		}
		return nil
	})
}
