package jail

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"time"

	"playground/fault"
	"playground/jail/holder"
	"playground/seqpacket"
)

// dialWait is longer than the holder's own bound.
const dialWait = 5 * time.Second

// Dial connects from inside the sandbox's network.
func (o *object) Dial(ctx context.Context, to netip.AddrPort) (*os.File, error) {
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	if err := o.request(holder.OpDial, theirs.File()); err != nil {
		return nil, err
	}
	ours.SetDeadline(time.Now().Add(dialWait))
	stop := context.AfterFunc(ctx, func() { ours.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := ours.Send([]byte(to.String())); err != nil {
		return nil, fault.Hide(fault.NotOpen, err, "the sandbox was lost")
	}
	theirs.Close() // so that a holder that is gone is noticed
	data, files, err := ours.Recv(make([]byte, 4096))
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	var reply holder.Reply
	if err == nil {
		err = json.Unmarshal(data, &reply)
	}
	switch {
	case err == nil && reply.Error == "" && len(files) == 1:
		return files[0], nil
	case err == nil && reply.Error != "":
		err = fault.New(fault.Unavailable, "cannot connect in the sandbox: %s", reply.Error).WithHint("look whether its worker runs: playground faculty list")
	case err == nil:
		err = fault.New(fault.Internal, "the sandbox's holder sent no connection")
	default:
		err = fault.Hide(fault.Unavailable, err, "the sandbox did not make the connection")
	}
	for _, f := range files {
		f.Close()
	}
	return nil, err
}
