package lsn_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/lsn"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value uint64
		text  string
	}{
		{0, "0/0"},
		{1, "0/1"},
		{0xf, "0/F"},
		{0x10, "0/10"},
		{0x4003F00, "0/4003F00"},
		{0xffffffff, "0/FFFFFFFF"},
		{0x1_00000000, "1/0"}, // Postgres does not fill up with zeros
		{0x16_B374D848, "16/B374D848"},
		{math.MaxUint64, "FFFFFFFF/FFFFFFFF"},
	} {
		if got := lsn.Start(test.value).String(); got != test.text {
			t.Errorf("start %#x is %s, want %s", test.value, got, test.text)
		}
		if got := lsn.End(test.value).String(); got != test.text {
			t.Errorf("end %#x is %s, want %s", test.value, got, test.text)
		}
		if got, err := lsn.ParseEnd(test.text); err != nil || got != lsn.End(test.value) {
			t.Errorf("%s is %#x, %v; want %#x", test.text, uint64(got), err, test.value)
		}
	}
}

func TestParseEndRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "/", "0", "0/", "/0", "0/0/0", "g/0", "0/g", "0x1/0", "-1/0", "+1/0", "1_0/0", " 0/0", "0/0 ",
		"100000000/0", "0/100000000", "0/FFFFFFFFF",
	} {
		if end, err := lsn.ParseEnd(text); err == nil || end != 0 || !strings.Contains(err.Error(), "0/16B3748") {
			t.Errorf("%q is %v, %v", text, end, err)
		}
	}
}

func TestParseEndReadsWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"A/BCD", "a/bcd", "0000000A/00000BCD"} {
		if end, err := lsn.ParseEnd(text); err != nil || end != 0xA_00000BCD {
			t.Errorf("%q is %v, %v", text, end, err)
		}
	}
}

// Measured on three transactions in a row: the start of a commit record confirmed sends the transaction again, one
// byte more does not.
func TestCoveredBy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		start lsn.Start
		end   lsn.End
		want  bool
	}{
		{0x100, 0, false},
		{0x100, 0xff, false},
		{0x100, 0x100, false},
		{0x100, 0x101, true},
		{0x100, 0x130, true},
		{1 << 63, 1, false}, // not by the sign of a difference
		{1, 1 << 63, true},
	} {
		if got := test.start.CoveredBy(test.end); got != test.want {
			t.Errorf("%v covered by %v: %t", test.start, test.end, got)
		}
	}
}

// The text is what Postgres prints, and it comes back.
func TestTextComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		end := lsn.End(rapid.Uint64().Draw(t, "end"))
		if got, err := lsn.ParseEnd(end.String()); err != nil || got != end {
			t.Fatalf("%d is %s is %d, %v", uint64(end), end, uint64(got), err)
		}
	})
}
