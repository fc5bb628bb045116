package router

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each line is a column type, what Postgres prints and what the three of Connect's converters write. Those that stand in
// vectors.jsonl are compared there as well.
func TestRenderings(t *testing.T) {
	t.Parallel()
	const none = -1
	for _, c := range []struct {
		name                string
		oid                 uint32
		modifier            int32
		modes               Types
		text                string
		plain, simple, json string
	}{
		{"text", oidText, none, Types{}, `a"b\c`, `a"b\c`, `a"b\c`, `"a\"b\\c"`},
		{"jsonb", oidJSONB, none, Types{}, `{"a": "😀"}`, `{"a": "😀"}`, `{"a": "😀"}`, `"{\"a\": \"\uD83D\uDE00\"}"`},
		{"int4", oidInt4, none, Types{}, "-42", "-42", "-42", "-42"},
		{"true", oidBool, none, Types{}, "t", "true", "true", "true"},
		{"false", oidBool, none, Types{}, "f", "false", "false", "false"},
		{"float8", oidFloat8, none, Types{}, "0.1", "0.1", "0.1", "0.1"},
		{"float8 whole", oidFloat8, none, Types{}, "1234567", "1234567.0", "1234567.0", "1234567.0"},
		{"float8 large", oidFloat8, none, Types{}, "1e+300", "1.0E300", "1.0E300", "1.0E300"},
		{"float8 from 1e7", oidFloat8, none, Types{}, "10000000", "1.0E7", "1.0E7", "1.0E7"},
		{"float8 small", oidFloat8, none, Types{}, "0.00012", "1.2E-4", "1.2E-4", "1.2E-4"},
		{"float8 minus zero", oidFloat8, none, Types{}, "-0", "-0.0", "-0.0", "-0.0"},
		{"float8 NaN", oidFloat8, none, Types{}, "NaN", "NaN", "NaN", `"NaN"`},
		{"float8 -inf", oidFloat8, none, Types{}, "-Infinity", "-Infinity", "-Infinity", `"-Infinity"`},
		{"float4", oidFloat4, none, Types{}, "1.1", "1.1", "1.1", "1.1"},
		{"numeric(10,2)", oidNumeric, 10<<16 + 2 + 4, Types{}, "12.50", "12.50", "12.50", `"BOI="`},
		{"numeric(10,2) negative", oidNumeric, 10<<16 + 2 + 4, Types{}, "-12.50", "-12.50", "-12.50", `"+x4="`},
		{"numeric(10,8) tiny", oidNumeric, 10<<16 + 8 + 4, Types{}, "0.00000012", "1.2E-7", "1.2E-7", `"DA=="`},
		{"numeric(10,8) zero", oidNumeric, 10<<16 + 8 + 4, Types{}, "0.00000000", "0E-8", "0E-8", `"AA=="`},
		{"numeric", oidNumeric, none, Types{}, "12.50", "12.50", `{"scale":1,"value":"fQ=="}`, `{"scale":1,"value":"fQ=="}`},
		{"numeric whole", oidNumeric, none, Types{}, "100", "100", `{"scale":0,"value":"ZA=="}`, `{"scale":0,"value":"ZA=="}`},
		{"numeric NaN", oidNumeric, none, Types{}, "NaN", "NaN", "NaN", `"NaN"`},
		{"numeric as string", oidNumeric, none, Types{Decimal: "string"}, "12.50", "12.50", "12.50", `"12.50"`},
		{"numeric as double", oidNumeric, 10<<16 + 2 + 4, Types{Decimal: "double"}, "12.50", "12.5", "12.5", "12.5"},
		{"money", oidMoney, none, Types{}, "$1,234.50", "1234.50", "1234.50", `"AeI6"`},
		{"money negative", oidMoney, none, Types{}, "-$1.00", "-1.00", "-1.00", `"nA=="`},
		{"money as double", oidMoney, none, Types{Decimal: "double"}, "$1.50", "1.5", "1.5", "1.5"},
		{"money as string", oidMoney, none, Types{Decimal: "string"}, "$1.50", "1.50", "1.50", `"1.50"`},
		{"bytea", oidBytea, none, Types{}, `\x00ff10deadbeef`, "\x00\xff\x10\xde\xad\xbe\xef", "AP8Q3q2+7w==", `"AP8Q3q2+7w=="`},
		{"bytea empty", oidBytea, none, Types{}, `\x`, "", "", `""`},
		{"bytea as base64", oidBytea, none, Types{Binary: "base64"}, `\x00ff10`, "AP8Q", "AP8Q", `"AP8Q"`},
		{"bytea url-safe", oidBytea, none, Types{Binary: "base64-url-safe"}, `\xfbff`, "-_8=", "-_8=", `"-_8="`},
		{"bytea as hex", oidBytea, none, Types{Binary: "hex"}, `\xfbff`, "fbff", "fbff", `"fbff"`},
		{"bit(1)", oidBit, 1, Types{}, "1", "true", "true", "true"},
		{"bit(3)", oidBit, 3, Types{}, "101", "BQ==", "BQ==", `"BQ=="`},
		{"bit(16)", oidBit, 16, Types{}, "0000000100000010", "AgE=", "AgE=", `"AgE="`},
		{"varbit", oidVarbit, none, Types{}, "0", "", "", `""`},
		{"date", oidDate, none, Types{}, "2024-02-29", "19782", "19782", "19782"},
		{"date BC", oidDate, none, Types{}, "0044-03-15 BC", "-735160", "-735160", "-735160"},
		{"date iso", oidDate, none, Types{Time: "isostring"}, "2024-02-29", "2024-02-29Z", "2024-02-29Z", `"2024-02-29Z"`},
		{"date connect", oidDate, none, Types{Time: "connect"}, "2024-02-29", "2024-02-29", "2024-02-29", "19782"},
		{"time", oidTime, none, Types{}, "13:14:15.123456", "47655123456", "47655123456", "47655123456"},
		{"time(3)", oidTime, 3, Types{}, "13:14:15.123", "47655123", "47655123", "47655123"},
		{"time(3) in µs", oidTime, 3, Types{Time: "adaptive_time_microseconds"}, "13:14:15.123", "47655123000", "47655123000", "47655123000"},
		{"time 24:00", oidTime, none, Types{}, "24:00:00", "86400000000", "86400000000", "86400000000"},
		{"time iso", oidTime, none, Types{Time: "isostring"}, "13:14:15.100000", "13:14:15.1Z", "13:14:15.1Z", `"13:14:15.1Z"`},
		{"time connect", oidTime, none, Types{Time: "connect"}, "13:14:15.123456", "13:14:15.123Z", "13:14:15.123Z", "47655123"},
		{"timetz", oidTimetz, none, Types{}, "13:14:15+02", "11:14:15Z", "11:14:15Z", `"11:14:15Z"`},
		{"timetz past midnight", oidTimetz, none, Types{}, "01:00:00.5+05:30", "19:30:00.5Z", "19:30:00.5Z", `"19:30:00.5Z"`},
		{"timestamp", oidTimestamp, none, Types{}, "2024-01-02 03:04:05.678901", "1704164645678901", "1704164645678901", "1704164645678901"},
		{"timestamp(3)", oidTimestamp, 3, Types{}, "2024-01-02 03:04:05.678", "1704164645678", "1704164645678", "1704164645678"},
		{"timestamp(4)", oidTimestamp, 4, Types{}, "1970-01-01 00:00:00.0001", "100", "100", "100"},
		{"timestamp in ns", oidTimestamp, none, Types{Time: "nanoseconds"}, "1970-01-01 00:00:00.000001", "1000", "1000", "1000"},
		{"timestamp(3) in µs", oidTimestamp, 3, Types{Time: "microseconds"}, "1970-01-01 00:00:00.001", "1000", "1000", "1000"},
		{"timestamp iso", oidTimestamp, none, Types{Time: "isostring"}, "2024-01-02 03:04:05.678901", "2024-01-02T03:04:05.678901Z", "2024-01-02T03:04:05.678901Z", `"2024-01-02T03:04:05.678901Z"`},
		{"timestamp connect", oidTimestamp, none, Types{Time: "connect"}, "2024-01-02 03:04:05.678901", "2024-01-02T03:04:05.678Z", "2024-01-02T03:04:05.678Z", "1704164645678"},
		{"timestamp connect midnight", oidTimestamp, none, Types{Time: "connect"}, "2024-01-02 00:00:00", "2024-01-02", "2024-01-02", "1704153600000"},
		{"timestamp connect early", oidTimestamp, none, Types{Time: "connect"}, "1969-12-31 23:00:00", "23:00:00.000Z", "23:00:00.000Z", "-3600000"},
		{"timestamp infinity", oidTimestamp, none, Types{}, "infinity", "9223372036825200000", "9223372036825200000", "9223372036825200000"},
		{"timestamptz", oidTimestamptz, none, Types{}, "2024-01-02 01:04:05+00", "2024-01-02T01:04:05.000000Z", "2024-01-02T01:04:05.000000Z", `"2024-01-02T01:04:05.000000Z"`},
		{"timestamptz(0)", oidTimestamptz, 0, Types{}, "2024-01-02 01:04:05+00", "2024-01-02T01:04:05Z", "2024-01-02T01:04:05Z", `"2024-01-02T01:04:05Z"`},
		{"timestamptz(3)", oidTimestamptz, 3, Types{}, "2024-01-02 01:04:05.12-00:30:15", "2024-01-02T01:34:20.120Z", "2024-01-02T01:34:20.120Z", `"2024-01-02T01:34:20.120Z"`},
		{"timestamptz far", oidTimestamptz, 0, Types{}, "12024-01-02 01:04:05+00", "+12024-01-02T01:04:05Z", "+12024-01-02T01:04:05Z", `"+12024-01-02T01:04:05Z"`},
		{"timestamptz BC", oidTimestamptz, 0, Types{}, "0002-01-02 01:04:05+00 BC", "-0001-01-02T01:04:05Z", "-0001-01-02T01:04:05Z", `"-0001-01-02T01:04:05Z"`},
		{"timestamptz -infinity", oidTimestamptz, none, Types{}, "-infinity", "-infinity", "-infinity", `"-infinity"`},
		{"interval", oidInterval, none, Types{}, "1 day 02:03:04.5", "93784500000", "93784500000", "93784500000"},
		{"interval month", oidInterval, none, Types{}, "1 year 2 mons -3 days", "36558000000000", "36558000000000", "36558000000000"},
		{"interval negative", oidInterval, none, Types{}, "-00:00:01.5", "-1500000", "-1500000", "-1500000"},
		{"interval iso", oidInterval, none, Types{Interval: "string"}, "1 year 2 mons 3 days -04:05:06.700", "P1Y2M3DT-4H-5M-6.7S", "P1Y2M3DT-4H-5M-6.7S", `"P1Y2M3DT-4H-5M-6.7S"`},
		{"point", oidPoint, none, Types{}, "(1,2)", "(1,2)",
			`{"x":1.0,"y":2.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}`, `{"x":1.0,"y":2.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}`},
		{"int4[]", 1007, none, Types{}, "{1,2,NULL}", "[1, 2, null]", "[1,2,null]", "[1,2,null]"},
		{"text[]", 1009, none, Types{}, `{a,"b c",NULL,"NULL","q\"\\",""}`, `[a, b c, null, NULL, q"\, ]`, `["a","b c",null,"NULL","q\"\\",""]`, `["a","b c",null,"NULL","q\"\\",""]`},
		{"text[] controls", 1009, none, Types{}, "{\"a\n😀\"}", "[a\n😀]", "[\"a\n😀\"]", `["a\n\uD83D\uDE00"]`},
		{"bool[]", 1000, none, Types{}, "{t,f}", "[true, false]", "[true,false]", "[true,false]"},
		{"int4[][]", 1007, none, Types{}, "{{1,2},{3,4}}", "[[1, 2], [3, 4]]", "[[1,2],[3,4]]", "[[1,2],[3,4]]"},
		{"int4[] bounds", 1007, none, Types{}, "[0:1]={1,2}", "[1, 2]", "[1,2]", "[1,2]"},
		{"empty array", 1007, none, Types{}, "{}", "[]", "[]", "[]"},
		{"numeric[]", 1231, none, Types{}, "{1.5}", "[1.5]", `[{"scale":1,"value":"Dw=="}]`, `[{"scale":1,"value":"Dw=="}]`},
		{"inet", 869, none, Types{}, "10.0.0.1/24", "10.0.0.1/24", "10.0.0.1/24", `"10.0.0.1/24"`},
		{"enum or citext", 20000, none, Types{}, "Order", "Order", "Order", `"Order"`},
	} {
		typ, ok := Catalog{}.columnType(c.oid, c.modifier, Config{Types: c.modes}.resolved(nil).Types)
		if !ok {
			t.Errorf("%s: no form", c.name)
		}
		for s, want := range map[style]string{stylePlain: c.plain, styleSimple: c.simple, styleJSON: c.json} {
			got, err := typ.append([]byte("before "), []byte(c.text), s, false)
			if err != nil || string(got) != "before "+want {
				t.Errorf("%s of %s in style %d: %q (%v), want %q", c.name, c.text, s, got, err, want)
			}
		}
	}
}

// Types of users are known from the catalog only.
func TestUserTypes(t *testing.T) {
	t.Parallel()
	known := Catalog{Types: map[uint32]TypeInfo{
		20001: {Base: oidNumeric, BaseModifier: 10<<16 + 2 + 4},
		20002: {Base: 20001, BaseModifier: -1},
		20003: {Enum: []string{"a", `b"`}},
		20004: {Element: 20003},
		20005: {Base: 20005},
	}}
	for oid, want := range map[uint32]string{
		20001: `"BOI="`, 20002: `"BOI="`, 20003: `"12.50"`, 20004: "", 20005: `"12.50"`, 20006: `"12.50"`,
	} {
		base, modifier := known.base(oid, -1)
		typ, ok := known.columnType(base, modifier, Config{}.resolved(nil).Types)
		got, err := typ.append(nil, []byte("12.50"), styleJSON, false)
		if !ok || string(got) != want || (err == nil) != (want != "") {
			t.Errorf("type %d: %s (%v, %v), want %s", oid, got, ok, err, want)
		}
	}
	enum, _ := known.columnType(20004, -1, Types{})
	if got, want := enum.schema.json(true)+"}", `{"type":"array","items":{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":"a,b\""}},"optional":true}`; got != want {
		t.Errorf("schema %s, want %s", got, want)
	}
	if got, err := enum.append(nil, []byte(`{a,"b\""}`), styleJSON, false); err != nil || string(got) != `["a","b\""]` {
		t.Errorf("enum array: %s (%v)", got, err)
	}
}

// A value that Postgres cannot have printed is poison, never a wrong value.
func TestRenderingsOfNonsense(t *testing.T) {
	t.Parallel()
	for oid, texts := range map[uint32][]string{
		oidDate:        {"", "2024", "2024-13-01", "2024-01-32", "2024-01-01x", "x", "99999999-01-01"},
		oidTimestamp:   {"", "2024-01-02", "2024-01-02 03", "2024-01-02 03:04:05.1234567", "2024-01-02 03:61:00", "2024-01-02 03:04:05+25"},
		oidTime:        {"", "1", "1:2", "99999999999:00:00"},
		oidTimestamptz: {"", "2024-01-02 03:04:05+", "2024-01-02T03:04:05Z"},
		oidInterval:    {"1", "1 week", "1 day 2", "x"},
		oidBytea:       {"", "abc", `\x1`, `\xzz`},
		oidFloat8:      {"", "x"},
		oidPoint:       {"", "()", "(1)", "(NaN,1)", "1,2"},
		1007:           {"", "{", "{1", "{1,", "1}", "{1}x", "{{1}", "[0:1]", `{"`, `{"a"b}`},
	} {
		typ, _ := Catalog{}.columnType(oid, -1, Config{}.resolved(nil).Types)
		for _, text := range texts {
			got, err := typ.append(nil, []byte(text), styleJSON, false)
			if _, isPoison := err.(*PoisonError); !isPoison {
				t.Errorf("type %d: %q is written as %q (%v), want poison", oid, text, got, err)
			}
		}
	}
}

// The calendar agrees with the time package over its whole range.
func TestCalendarAgainstTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-210_866_803_200_000_000, 9_223_371_331_200_000_000).Draw(t, "µs")).UTC()
		text := at.Format("2006-01-02 15:04:05.999999")
		if at.Year() <= 0 {
			text = time.Date(1-at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC).Format("2006-01-02")
			if at.Month() == 2 && at.Day() == 29 {
				t.Skip("the year 1-y is no leap year for the formatter")
			}
			text += at.Format(" 15:04:05.999999") + " BC"
		}
		micros, ok := parseTimestamp([]byte(text))
		if !ok || micros != at.UnixMicro() {
			t.Fatalf("%s: %d, want %d", text, micros, at.UnixMicro())
		}
		if at.Year() > 0 && at.Year() < 10000 {
			if got, want := string(appendISOTimestamp(nil, micros, 6)), at.Format("2006-01-02T15:04:05.000000Z"); got != want {
				t.Fatalf("%d: %s, want %s", micros, got, want)
			}
		}
	})
}

// The bytes of a decimal are those of a two's complement number.
func TestDecimalBytesAgainstBig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?`).Draw(t, "numeric")
		d, ok := parseDecimal([]byte(text), nil)
		if !ok {
			t.Fatalf("%s is not read", text)
		}
		encoded, err := base64.StdEncoding.DecodeString(string(d.appendBase64(nil)))
		if err != nil {
			t.Fatal(err)
		}
		got := new(big.Int).SetBytes(encoded)
		if encoded[0] >= 0x80 {
			got.Sub(got, new(big.Int).Lsh(big.NewInt(1), uint(8*len(encoded))))
		}
		want, _ := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
		if got.Cmp(want) != 0 || len(encoded) > 1 && (encoded[0] == 0 && encoded[1] < 0x80 || encoded[0] == 0xff && encoded[1] >= 0x80) {
			t.Fatalf("%s: % x", text, encoded)
		}
		_, fraction, _ := strings.Cut(text, ".")
		stripped := d.stripped()
		if want := len(strings.TrimRight(fraction, "0")); stripped.scale != want {
			t.Fatalf("%s: scale %d without trailing zeros, want %d", text, stripped.scale, want)
		}
	})
}

// Java's text of a double reads as the same double.
func TestJavaDoubleReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "double")
		if math.IsInf(f, 0) || math.IsNaN(f) {
			return
		}
		text := appendJavaDigits(nil, f, 64)
		var got float64
		if err := json.Unmarshal(text, &got); err != nil || got != f {
			t.Fatalf("%v is written as %s (%v)", f, text, err)
		}
	})
}
