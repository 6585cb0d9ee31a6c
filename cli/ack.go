package cli

import (
	"context"
	"fmt"

	"playground/job"
	"playground/localapi/jobapi"
)

// Ack accepts that a job's end was not proved, and allows starts again. It asks the daemon that keeps the fact, because
// the transport does not run while it stands.
func (e *Env) Ack(ctx context.Context) error {
	c, err := e.load()
	if err != nil {
		return err
	}
	client := jobapi.NewClient(c.ReaperSocket())
	defer client.Disconnect()
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if status.Lost != nil {
		if err := client.Ack(ctx); err != nil {
			return err
		}
	}
	if e.JSON {
		return e.printJSON(struct {
			Acknowledged *job.Lost `json:"acknowledged"` // null: there was nothing to accept
		}{status.Lost})
	}
	if status.Lost == nil {
		_, err = fmt.Fprintln(e.Stdout, "nothing to acknowledge: every job's end was proved")
		return err
	}
	fmt.Fprintf(e.Stdout, "acknowledged: the end of a job of tenant %q was not proved on %s\n", status.Lost.Tenant, when(status.Lost.Since))
	for _, left := range status.Lost.Pids {
		if left.Pid < 0 { // kill(1) would take -1 for every process
			fmt.Fprintf(e.Stdout, "  jail %d was left; see whether it is still the same: jls -d -j %d\n", -left.Pid, -left.Pid)
			continue
		}
		fmt.Fprintf(e.Stdout, "  process %d was left; end it if it still runs\n", left.Pid)
	}
	if status.Lost.Unknown {
		fmt.Fprintln(e.Stdout, "  there may be others: nobody could list them")
	}
	_, err = fmt.Fprintln(e.Stdout, "starts are allowed again")
	return err
}
