package record

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The vectors of RFC 8785: its sections 3.2.2 to 3.2.4 and appendix B.
func TestCanonicalVectors(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"section 3.2.2": {`{
			"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			"literals": [null, true, false]
		}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		"section 3.2.3": {`{
			"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
			"\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
		}`, "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		"nesting":         {` [ 56 , { "d" : true , "10" : null , "1" : [ ] } ] `, `[56,{"1":[],"10":null,"d":true}]`},
		"empty":           {"{\t}", `{}`},
		"control":         {`"\u0001\u001f\u007f\b\t\n\f\r"`, "\"\\u0001\\u001f\u007f\\b\\t\\n\\f\\r\""},
		"html stays":      {`"<&>\u2028"`, "\"<&>\u2028\""},
		"minus zero":      {`[-0,-0.0,0e5]`, `[0,0,0]`},
		"integers":        {`[9007199254740991,-9007199254740991,9007199254740994,1e3,1000000000000000000000]`, `[9007199254740991,-9007199254740991,9007199254740994,1000,1e+21]`},
		"its own output":  {`[333333333333333300000,1e+21,1e-7,0.000001]`, `[333333333333333300000,1e+21,1e-7,0.000001]`},
		"deepest allowed": {strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	} {
		if got, err := Canonicalize([]byte(c.in)); err != nil || string(got) != c.want {
			t.Errorf("%s:\n got %s (%v)\nwant %s", name, got, err, c.want)
		}
	}
}

// RFC 8785 appendix B: doubles by their bits, and their text.
func TestCanonicalNumbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0",
		0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := string(appendNumber(nil, math.Float64frombits(bits))); got != want {
			t.Errorf("%016x: %s, want %s", bits, got, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":            {"", "unexpected end"},
		"NaN":                {"NaN", "no value"},
		"infinity":           {"-Infinity", "not a number"},
		"overflow":           {"1e400", "out of range"},
		"integer over 2^53":  {"9007199254740993", "would not survive"},
		"2^60":               {"1152921504606846976", "would not survive"},
		"long integer":       {strings.Repeat("1", 300), "would not survive"},
		"longer integer":     {strings.Repeat("1", 5000), "out of range"},
		"duplicate":          {`{"a":1,"\u0061":2}`, "twice"},
		"deep duplicate":     {`[{"x":{"a":1,"b":2,"a":3}}]`, "twice"},
		"not UTF-8":          {"\"\xff\"", "not UTF-8"},
		"surrogate in UTF-8": {"\"\xed\xa0\x80\"", "not UTF-8"},
		"overlong":           {"\"\xc0\x80\"", "not UTF-8"},
		"lone high":          {`"\ud800"`, "surrogate"},
		"lone low":           {`"\udc00"`, "surrogate"},
		"high high":          {`"\ud800\ud800"`, "surrogate"},
		"high and letter":    {`"\ud800a"`, "surrogate"},
		"depth":              {strings.Repeat("[", 65) + strings.Repeat("]", 65), "levels"},
		"depth of objects":   {strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "levels"},
		"very deep":          {strings.Repeat("[", 1<<20), "levels"},
		"control":            {"\"\n\"", "control"},
		"escape":             {`"\x"`, "escape"},
		"digits":             {`"\u00g0"`, "hexadecimal"},
		"short unit":         {`"\u00`, "end"},
		"open string":        {`"a`, "end"},
		"leading zero":       {"01", "not a number"},
		"plus":               {"+1", "no value"},
		"point":              {"1.", "digit"},
		"exponent":           {"1e", "digit"},
		"more":               {"1 2", "more"},
		"comma":              {"[1,]", "no value"},
		"name":               {"{a:1}", "name"},
		"colon":              {`{"a" 1}`, `":"`},
		"byte order mark":    {"\ufeff{}", "no value"},
		"zero byte":          {"{}\x00", "more"},
		"vertical tab":       {"\v{}", "no value"},
	} {
		if got, err := Canonicalize([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.80s, %v; want %q", name, got, err, c.want)
		}
	}
}

// jsonValue draws what encoding/json makes of any JSON text.
func jsonValue() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return drawValue(t, 4) })
}

func drawValue(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(1, kinds).Draw(t, "kind") {
	case 1:
		return nil
	case 2:
		return rapid.Bool().Draw(t, "bool")
	case 3:
		return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "")
	case 4:
		return float64(rapid.Int64Range(-MaxClock, MaxClock).Draw(t, "integer"))
	case 5:
		return rapid.Float64().Draw(t, "number")
	case 6:
		items := make([]any, rapid.IntRange(0, 4).Draw(t, "items"))
		for i := range items {
			items[i] = drawValue(t, depth-1)
		}
		return items
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[rapid.String().Draw(t, "name")] = drawValue(t, depth-1)
	}
	return object
}

func TestCanonicalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValue().Draw(t, "value")
		plain, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(value, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		a, err := Canonicalize(plain)
		if err != nil {
			t.Fatalf("%s: %v", plain, err)
		}
		b, err := Canonicalize(indented)
		if err != nil || string(a) != string(b) {
			t.Fatalf("spaces change %s to %s (%v)", a, b, err)
		}
		checkCanonical(t, plain, a)
	})
}

func checkCanonical(t interface {
	Fatalf(format string, args ...any)
}, in, out []byte) {
	again, err := Canonicalize(out)
	if err != nil || string(again) != string(out) {
		t.Fatalf("%q becomes %q and then %q (%v)", in, out, again, err)
	}
	var a, b any
	if err := json.Unmarshal(in, &a); err != nil {
		t.Fatalf("%q was taken: %v", in, err)
	}
	if err := json.Unmarshal(out, &b); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if strings.ReplaceAll(string(x), "-0", "0") != strings.ReplaceAll(string(y), "-0", "0") { // -0 becomes 0
		t.Fatalf("%q means %s, %q means %s", in, x, out, y)
	}
}

func FuzzCanonicalize(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[1.50,-0,1e21,"\u20ac\ud83d\ude00",null,true]}`, `[333333333333333300000]`, `"\ud800"`, `{"a":1,"a":2}`, `9007199254740993`, ` {} `, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := Canonicalize(in)
		if err != nil {
			return
		}
		checkCanonical(t, in, out)
	})
}
