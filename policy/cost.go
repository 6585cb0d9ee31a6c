package policy

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// bytesAUnit is how many bytes of text one cost unit stands for: reading them takes about as long as one operation.
const bytesAUnit = 100

// work charges a call for the text and the elements that it goes through. The standard estimate knows this only where types
// are known before the evaluation, and everything in a record is of type dyn.
type work struct{}

// CallCost implements cost.ActualCostEstimator.
func (work) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	total := 1 + textCost(result)
	for _, arg := range args {
		total += textCost(arg)
	}
	switch function {
	case operators.Equals, operators.NotEquals:
		total += min(elements(args[0], costLimit), elements(args[1], costLimit))
	case operators.In:
		if _, keyed := args[1].(traits.Mapper); !keyed {
			total += elements(args[1], costLimit)
		}
	}
	return &total
}

// textCost is what going once through value costs, if it is a text.
func textCost(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v)) / bytesAUnit
	case types.Bytes:
		return uint64(len(v)) / bytesAUnit
	}
	return 0
}

// elements counts what is in a list or map at every depth, up to most.
func elements(value ref.Val, most uint64) (count uint64) {
	list, isList := value.(traits.Lister)
	object, isMap := value.(traits.Mapper)
	switch {
	case isMap:
		for keys := object.Iterator(); count < most && keys.HasNext() == types.True; {
			key := keys.Next()
			count += 1 + textCost(key) + elements(object.Get(key), most-count)
		}
	case isList:
		for values := list.Iterator(); count < most && values.HasNext() == types.True; {
			count += 1 + elements(values.Next(), most-count)
		}
	default:
		return textCost(value)
	}
	return count
}
