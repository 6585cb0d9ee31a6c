package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"playground/fault"
	"playground/localapi/jobapi"
)

// Clean clears away what the commands of an earlier reaperd left: jails and their limits. What runs now is left alone. It says
// what it removed, and fails when something is left that could not be proved empty.
func (e *Env) Clean(ctx context.Context) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	client := jobapi.NewClient(c.ReaperSocket())
	defer client.Disconnect()
	cleaned, err := client.Clean(ctx)
	if err != nil {
		return err
	}
	if e.JSON {
		err = e.printJSON(cleaned)
	} else {
		err = showCleaned(e.Stdout, cleaned)
	}
	return errors.Join(err, notClean(cleaned))
}

func showCleaned(w io.Writer, c jobapi.Cleaned) error {
	for _, name := range c.Jails {
		fmt.Fprintf(w, "removed jail %s, and all that was in it\n", name)
	}
	for _, name := range c.Limits {
		fmt.Fprintf(w, "removed the limits of jail %s\n", name)
	}
	for _, name := range c.Left {
		fmt.Fprintf(w, "LEFT: jail %s is not proved empty\n", name)
	}
	if len(c.Jails)+len(c.Limits)+len(c.Left) > 0 || c.Error != "" {
		return nil
	}
	reason := c.Reason
	if reason == "" {
		reason = "no earlier daemon left a jail or a limit"
	}
	_, err := fmt.Fprintf(w, "nothing to clean: %s\n", reason)
	return err
}

// notClean is why a clean does not count as done, nil if it does.
func notClean(c jobapi.Cleaned) error {
	switch {
	case len(c.Left) > 0:
		return fault.New(fault.ProofLost, "%d jails of earlier commands are not proved empty: %s", len(c.Left), c.Error).
			WithHint("look at their processes with: ps -J NAME; then run `playground clean` again")
	case c.Error != "":
		return fault.New(fault.Unavailable, "not all could be cleaned: %s", c.Error).WithHint("look at the log of playground-reaperd, and at `playground doctor`")
	}
	return nil
}
