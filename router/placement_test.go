package router

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlacements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []Placement
	}{
		{"type:header", []Placement{{"type", PlaceHeader, "type"}}},
		{"type:header:eventType", []Placement{{"type", PlaceHeader, "eventType"}}},
		{"type:HEADER:", []Placement{{"type", PlaceHeader, "type"}}},
		{"p:Partition", []Placement{{"p", PlacePartition, "p"}}},
		{" type : header : eventType , aggregateid:header:aid, type:envelope , aggregatetype:envelope:at,", []Placement{
			{"type", PlaceHeader, "eventType"}, {"aggregateid", PlaceHeader, "aid"},
			{"type", PlaceEnvelope, "type"}, {"aggregatetype", PlaceEnvelope, "at"},
		}},
		{"schlüssel:header:a b", []Placement{{"schlüssel", PlaceHeader, "a b"}}},
	} {
		got, problems := ParsePlacements([]string{c.text})
		if diff := cmp.Diff(c.want, got); diff != "" || problems != nil {
			t.Errorf("%q: %v %s", c.text, problems, diff)
		}
	}
}

func TestParsePlacementsReportsEveryProblem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 1, "type": 1, "type:": 1, ":header": 1, "a:b:c:d": 1, "type:footer": 1, " ": 1, "a,b:header,c": 2, "a:header,,b:header": 1,
	} {
		if _, problems := ParsePlacements([]string{text}); len(problems) != want {
			t.Errorf("%q: problems %v, want %d", text, problems, want)
		}
	}
}

func FuzzPlacement(f *testing.F) {
	f.Add("type:header:eventType, a:envelope")
	f.Fuzz(func(t *testing.T, text string) {
		placements, problems := ParsePlacements([]string{text})
		if len(placements)+len(problems) == 0 {
			t.Errorf("%q is neither an entry nor a problem", text)
		}
		for _, p := range placements {
			again, problems := ParsePlacements([]string{p.String()})
			if len(problems) > 0 || len(again) != 1 || again[0] != p {
				t.Errorf("%q: %q reads as %v (%v)", text, p, again, problems)
			}
		}
	})
}
