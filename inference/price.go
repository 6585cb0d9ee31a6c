package inference

import (
	"maps"
	"math"
	"regexp"
)

// A Price is what a model costs, in US dollars a million tokens.
type Price struct {
	InputPerMTok  float64 `json:"input_per_mtok"`
	OutputPerMTok float64 `json:"output_per_mtok"`
}

// Valid reports whether p can be reckoned with: both figures are at least 0 and at most 100,000.
func (p Price) Valid() bool {
	fits := func(v float64) bool { return v >= 0 && v <= 1e5 } // false for NaN
	return fits(p.InputPerMTok) && fits(p.OutputPerMTok)
}

// Prices returns a new copy of the list prices that are known here. A service changes them without telling this program:
// whoever pays sets those that matter to him. The two providers that ask nobody cost nothing.
func Prices() map[string]Price {
	return map[string]Price{
		EchoModel:           {},
		ScriptedModel:       {},
		"claude-fable-5-1":  {10, 50},
		"claude-fable-5":    {10, 50},
		"claude-opus-5-5":   {4, 20},
		"claude-opus-5":     {5, 25},
		"claude-opus-4-8":   {5, 25},
		"claude-opus-4-7":   {5, 25},
		"claude-opus-4-6":   {5, 25},
		"claude-opus-4-5":   {5, 25},
		"claude-sonnet-5-5": {2, 10},
		"claude-sonnet-5":   {2, 10},
		"claude-sonnet-4-6": {3, 15},
		"claude-sonnet-4-5": {3, 15},
		"claude-haiku-5-5":  {0.50, 2.50}, // of a long prompt; a short one costs a fifth
		"claude-haiku-4-5":  {1, 5},
		"gpt-5":             {1.25, 10},
		"gpt-5-mini":        {0.25, 2},
		"gpt-5-nano":        {0.05, 0.40},
		"gpt-4.1":           {2, 8},
		"gpt-4.1-mini":      {0.40, 1.60},
		"gpt-4o":            {2.50, 10},
		"gpt-4o-mini":       {0.15, 0.60},
	}
}

// dated is the ending of a model name that names one release of it.
var dated = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$`)

// priceOf finds the price of a model, or that of the model it is a release of.
func priceOf(prices map[string]Price, model string) (Price, bool) {
	price, known := prices[model]
	if !known {
		price, known = prices[dated.ReplaceAllString(model, "")]
	}
	return price, known && price.Valid()
}

// Money is kept in whole billionths of a dollar, and prices in whole trillionths a token, so that a thousand small
// calls add up exactly. What does not divide is rounded up.
const (
	nanosADollar = 1e9
	picosAToken  = 1e6 // of a price of one dollar a million tokens
	picosANano   = 1000
	maxTokens    = 10_000_000 // of one call, either way: what is beyond is a service's mistake, and would overflow
)

// picos is a price in trillionths of a dollar a token.
func picos(perMTok float64) int64 { return int64(math.Ceil(perMTok*picosAToken - 1e-6)) }

// cost is what tokens cost, in billionths of a dollar.
func (p Price) cost(input, output int64) int64 {
	total := counted(input)*picos(p.InputPerMTok) + counted(output)*picos(p.OutputPerMTok)
	return (total + picosANano - 1) / picosANano
}

// affords is how many output tokens nanos pay for.
func (p Price) affords(nanos int64) int64 {
	price := picos(p.OutputPerMTok)
	switch {
	case nanos < 0:
		return 0
	case price == 0 || nanos > math.MaxInt64/picosANano:
		return maxTokens
	}
	return min(nanos*picosANano/price, maxTokens)
}

// counted bounds a number of tokens that somebody reported.
func counted(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }

// nanos is a ceiling in billionths of a dollar. One that is no amount is 0.
func nanos(dollars float64) int64 {
	switch {
	case math.IsNaN(dollars) || dollars <= 0:
		return 0
	case dollars >= math.MaxInt64/nanosADollar:
		return math.MaxInt64
	}
	return int64(math.Floor(dollars*nanosADollar + 1e-3)) // 0.29 is not 0.28999
}

// dollars is the reverse of nanos.
func dollars(nanos int64) float64 { return float64(nanos) / nanosADollar }

// sum adds what is never negative, and stops at the largest number.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// copied returns prices that nobody else can change.
func copied(prices map[string]Price) map[string]Price { return maps.Clone(prices) }

// TokensOf is how many tokens a text of n bytes has at most, by a rule of thumb: tokenizers make one of three to four bytes
// of English or code and one of two in what is dense, like base64.
func TokensOf(n int) int64 { return int64(n+1) / 2 }

// What a service adds to the text of a request, in tokens.
const (
	perRequest = 32
	perPart    = 16  // a message, a block or a tool
	perTools   = 512 // the instructions for tools, where there are any
)

// Estimate is how many input tokens a request has at most, by the same rule.
func Estimate(r Request) int64 {
	total := perRequest + TokensOf(len(r.System))
	for _, message := range r.Messages {
		total += perPart
		for _, block := range message.Content {
			total += perPart + TokensOf(len(block.Text)+len(block.Name)+len(block.ID)+len(block.ToolUseID)+len(block.Input))
		}
	}
	if len(r.Tools) > 0 {
		total += perTools
	}
	for _, tool := range r.Tools {
		total += perPart + TokensOf(len(tool.Name)+len(tool.Description)+len(tool.InputSchema))
	}
	return total
}
