package tier

import (
	"encoding/json"

	"playground/fault"
)

// An Assignment puts an actor into a tier. An empty tier takes the actor's assignment back.
type Assignment struct {
	Actor string `json:"actor"`
	Tier  Name   `json:"tier"`
}

// ParseAssignment reads the body of an actor_tier record. Tier operator reads as team: no record makes an operator.
func ParseAssignment(body json.RawMessage) (Assignment, error) {
	var in struct {
		Actor *string `json:"actor"`
		Tier  *Name   `json:"tier"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Assignment{}, fault.New(fault.Invalid, "cannot read the actor_tier record: actor and tier are texts")
	}
	if in.Actor == nil || *in.Actor == "" {
		return Assignment{}, fault.New(fault.Invalid, "an actor_tier record names no actor")
	}
	if in.Tier == nil {
		return Assignment{}, fault.New(fault.Invalid, "an actor_tier record names no tier").WithHint("the tiers are trial, paid and team; \"\" clears")
	}
	a := Assignment{Actor: *in.Actor, Tier: *in.Tier}
	switch a.Tier {
	case "", Trial, Paid, Team:
	case Operator:
		a.Tier = Team
	default:
		return Assignment{}, fault.New(fault.Invalid, "tier %.40q is unknown", string(a.Tier)).WithHint("the tiers are trial, paid and team; \"\" clears")
	}
	return a, nil
}

// Of returns the tier of a principal after the assignments in bodies, the oldest first. Only the operator's own DID is
// Operator, whatever was written; everybody else is Trial until a record says more.
func Of(principal, operator string, bodies []json.RawMessage) Name {
	if operator != "" && principal == operator {
		return Operator
	}
	name := Trial
	for _, body := range bodies {
		a, err := ParseAssignment(body)
		switch {
		case err != nil || a.Actor != principal:
		case a.Tier == "":
			name = Trial
		default:
			name = a.Tier
		}
	}
	return name
}

// A Transport is where a run's loop runs.
type Transport string

// The transports.
const (
	InProcess Transport = "in_process"
	Sandboxed Transport = "sandboxed"
)

// TransportOf returns the transport of a class of principals after the records of its topic, the oldest first: the
// operator's own (TopicOperator) or everybody else's (TopicMembers). A value that is not a transport reads as the
// default of the class, so that a typo moves nobody.
func TransportOf(operator bool, bodies []json.RawMessage) Transport {
	standard := Sandboxed
	if operator {
		standard = InProcess
	}
	if len(bodies) == 0 {
		return standard
	}
	var in struct {
		Transport Transport `json:"transport"`
	}
	if err := json.Unmarshal(bodies[len(bodies)-1], &in); err != nil {
		return standard
	}
	if in.Transport == InProcess || in.Transport == Sandboxed {
		return in.Transport
	}
	return standard
}
