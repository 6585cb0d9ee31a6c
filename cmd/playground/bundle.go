package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"playground/cli"
)

// bundleCommands are those of "playground faculty" that make executables and put them into tenants.
func bundleCommands(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{
		facultyBuild(env),
		{Use: "cohorts [NAME]", Short: "List complete builds, and which tenants have them", Args: cobra.MaximumNArgs(1),
			RunE: interruptible(func(ctx context.Context, args []string) error { return env.FacultyCohorts(ctx, append(args, "")[0]) })},
		{Use: "install NAME[@FINGERPRINT] TENANT...", Short: "Put a build into tenants' sandboxes", Args: atLeast("NAME", "TENANT"),
			RunE: interruptible(func(ctx context.Context, args []string) error { return env.FacultyInstall(ctx, args[0], args[1:]) })},
		{Use: "rollback NAME TENANT...", Short: "Go back to the build that tenants had before", Args: atLeast("NAME", "TENANT"),
			RunE: interruptible(func(ctx context.Context, args []string) error { return env.FacultyRollback(ctx, args[0], args[1:]) })},
		facultyPrune(env),
	}
}

// atLeast is exactly for a last argument that may be given more than once.
func atLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage("%s: %s is missing", cmd.CommandPath(), names[len(args)])
		}
		return nil
	}
}

func facultyBuild(env *cli.Env) *cobra.Command {
	var b cli.BundleSpec
	cmd := &cobra.Command{Use: "build FOLDER", Short: "Build a faculty's executables in a sandbox of their own", Args: exactly("FOLDER"),
		Long: `Builds a source tree in a sandbox that is thrown away afterwards: it sees the source read-only, has a command's limits and
reaches no network unless --network says so. The same source and options are built once; a second call finds the build.`,
		Example: "  playground faculty build ./notebook --vendor\n" +
			"  playground faculty build ./tools --binary search=./cmd/search --binary index=./cmd/index\n" +
			"  playground faculty build ./scripts --command 'make && cp tool \"$OUT\"' --binary tool",
		RunE: interruptible(func(ctx context.Context, args []string) error {
			b.Source = args[0]
			return env.FacultyBuild(ctx, b)
		})}
	flags := cmd.Flags()
	flags.StringVar(&b.Name, "name", "", "the bundle's `name` (default: the folder's)")
	flags.StringVar(&b.Builder, "builder", "", "`what` builds it: go, cargo or command (default: by go.mod or Cargo.toml)")
	flags.StringVar(&b.Command, "command", "", "shell `text` that leaves executables in $OUT, for the builder command")
	flags.StringArrayVar(&b.Binaries, "binary", nil, "an executable to take: `NAME`, or NAME=PACKAGE for go, NAME=TARGET for cargo; may be given again (default: the bundle's name)")
	flags.BoolVar(&b.Network, "network", false, "let the build use the host's network")
	flags.BoolVar(&b.Vendor, "vendor", false, "fetch the dependencies first, with this host's go or cargo, so that the build needs no network")
	flags.BoolVar(&b.Force, "force", false, "build it anew, also where it was built already, as with another compiler")
	flags.DurationVar(&b.Timeout, "timeout", 30*time.Minute, "the most that the build may take")
	return cmd
}

func facultyPrune(env *cli.Env) *cobra.Command {
	var keep int
	var dry bool
	cmd := &cobra.Command{Use: "prune [NAME]", Short: "Remove failed builds, and old ones that no tenant has", Args: cobra.MaximumNArgs(1),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			return env.FacultyPrune(ctx, append(args, "")[0], keep, dry)
		})}
	cmd.Flags().IntVar(&keep, "keep", 1, "the newest `builds` of each bundle to keep in any case")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	return cmd
}
