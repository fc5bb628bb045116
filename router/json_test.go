package router

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestJSONStringReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		quoted := appendJSONString(nil, text)
		var got string
		if err := json.Unmarshal(quoted, &got); err != nil || got != text {
			t.Fatalf("%q is written as %s, which reads as %q (%v)", text, quoted, got, err)
		}
		if again := appendUnquoted(nil, quoted); string(again) != text {
			t.Fatalf("%s reads as %q, want %q", quoted, again, text)
		}
	})
}

func TestJSONStringAsJackson(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<a href='x'>&</a>": `"<a href='x'>&</a>"`,
		"\b\t\n\f\r\"\\/":   `"\b\t\n\f\r\"\\/"`,
		"\x00\x1f\x7f":      "\"\\u0000\\u001F\x7f\"",
		"é \u2028 你 \uffff": "\"é \u2028 你 \uffff\"",
		"😀":                 `"\uD83D\uDE00"`,
		"\xf0\x9f":          "\"\xf0\x9f\"", // not UTF-8: unchanged
		"\xff":              "\"\xff\"",
		"a\U0010FFFFb":      `"a\uDBFF\uDFFFb"`,
	} {
		if got := string(appendJSONString(nil, text)); got != want {
			t.Errorf("%q is written as %s, want %s", text, got, want)
		}
	}
}

func TestUnquoteAsEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, quoted := range []string{
		`"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ude00"`, `"\/\b\f\n\r\t\"\\"`, `""`, `"é😀"`, `"\u0000"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(quoted), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(appendUnquoted(nil, []byte(quoted))); got != want {
			t.Errorf("%s reads as %q, want %q", quoted, got, want)
		}
	}
}

// document draws a JSON value.
func document(t *rapid.T) any {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }), rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		inner := value(depth - 1)
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(a []any) any { return a }),
			rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(m map[string]any) any { return m }))
	}
	return value(3).Draw(t, "document")
}

func TestCompactAsEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		indented, err := json.MarshalIndent(document(t), "\t", rapid.StringMatching("[ \t\r\n]{0,3}").Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, indented); err != nil {
			t.Fatal(err)
		}
		if got := appendCompact(nil, indented); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s becomes %s, want %s", indented, got, want.Bytes())
		}
	})
}

// The walk over an object finds what encoding/json finds.
func TestMembersAsEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.MarshalIndent(map[string]any{"a": document(t), "": document(t), "]}\\\"": document(t)}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		object, _ := openObject(doc)
		for {
			quoted, value, ok := object.next()
			if !ok {
				break
			}
			var v any
			if err := json.Unmarshal(value, &v); err != nil {
				t.Fatalf("%s: member %s is %s: %v", doc, quoted, value, err)
			}
			got[string(appendUnquoted(nil, quoted))] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", doc, diff)
		}
	})
}

// What we call JSON is what encoding/json calls JSON, also after a change of a byte, and cut anywhere.
func TestValidAsEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.MarshalIndent(document(t), "", rapid.StringMatching("[ \t\r\n]{0,3}").Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(doc)).Draw(t, "at")
		insert := rapid.SampledFrom([]string{"", "\\", "\"", "\x00", "\x1f", " ", "0", "-", "e", "E+", ".", ",", ":", "{", "}", "[", "]", "\\u00e", "\\u00e9", "\\x", "\\n", "t", "\xff"}).Draw(t, "insert")
		drop := min(rapid.IntRange(0, 2).Draw(t, "drop"), len(doc)-at)
		doc = append(append(bytes.Clone(doc[:at]), insert...), doc[at+drop:]...)
		for _, text := range [][]byte{doc, doc[:at]} {
			if got, want := validJSON(text), json.Valid(text); got != want {
				t.Fatalf("%q: valid %v, want %v", text, got, want)
			}
		}
	})
	for _, depth := range []int{maxNesting, maxNesting + 1} {
		text := append(bytes.Repeat([]byte("["), depth), bytes.Repeat([]byte("]"), depth)...)
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("%d arrays: valid %v, want %v", depth, got, want)
		}
	}
}

func TestInferredSchema(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{}`:                        `{"type":"struct","fields":[],"optional":true,"name":"payload"`,
		`{"a":1}`:                   `{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"}],"optional":true,"name":"payload"`,
		`{"a":-0,"b":5000000000}`:   `{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"},{"type":"int64","optional":true,"field":"b"}],"optional":true,"name":"payload"`,
		`{"a":1e3}`:                 `{"type":"struct","fields":[{"type":"double","optional":true,"field":"a"}],"optional":true,"name":"payload"`,
		`{"a":null,"b":[],"c":"x"}`: `{"type":"struct","fields":[{"type":"string","optional":true,"field":"c"}],"optional":true,"name":"payload"`,
		`{"a":[null,true]}`:         `{"type":"struct","fields":[{"type":"array","items":{"type":"boolean","optional":true},"optional":true,"field":"a"}],"optional":true,"name":"payload"`,
		`{"a":[{"x":1},{"y":"z"}]}`: `{"type":"struct","fields":[{"type":"array","items":{"type":"struct","fields":[{"type":"int32","optional":true,"field":"x"},{"type":"string","optional":true,"field":"y"}],"optional":true,"name":"payload.a"},"optional":true,"field":"a"}],"optional":true,"name":"payload"`,
		`{"b":{"c":"x"}}`:           `{"type":"struct","fields":[{"type":"struct","fields":[{"type":"string","optional":true,"field":"c"}],"optional":true,"name":"payload.b","field":"b"}],"optional":true,"name":"payload"`,
		`[1,2]`:                     `{"type":"array","items":{"type":"int32","optional":true},"optional":true`,
		`{"a":[[1],[2]]}`:           `{"type":"struct","fields":[{"type":"array","items":{"type":"array","items":{"type":"int32","optional":true},"optional":true},"optional":true,"field":"a"}],"optional":true,"name":"payload"`,
		// Debezium writes these as a string, or dies of them.
		`[]`: "", `{"a":[1,"x"]}`: "", `{"a":[1,5000000000]}`: "", `{"a":[null]}`: "", `{"a":[[],[3]]}`: "", `{"a":[{"x":1},{"x":"s"}]}`: "",
	} {
		schema, ok := infer("payload", []byte(doc), 0)
		got := ""
		if ok && schema != nil {
			got = string(schema.append(nil))
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", doc, got, want)
		}
	}
}

func TestInferenceIsBounded(t *testing.T) {
	t.Parallel()
	deep := bytes.Repeat([]byte(`{"a":`), 100_000)
	deep = append(append(deep, '1'), bytes.Repeat([]byte("}"), 100_000)...)
	if _, ok := infer("payload", deep, 0); ok {
		t.Error("a document of 100000 levels has a schema")
	}
}
