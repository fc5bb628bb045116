package router

import (
	"fmt"
	"strings"
)

// Place is where a placed column goes.
type Place string

// The places. Case does not matter in the configuration.
const (
	PlaceHeader    Place = "header"
	PlaceEnvelope  Place = "envelope"
	PlacePartition Place = "partition"
)

// Placement is one additional column of the record.
type Placement struct {
	Column string
	Place  Place
	Alias  string // name of the header or envelope member; the column's name by default
}

// ParsePlacements reads Debezium's notation, column:place[:alias] separated by commas, with any whitespace around the
// parts. Several texts are read as if joined by commas. All problems are returned.
func ParsePlacements(texts []string) (placements []Placement, problems []error) {
	for _, text := range texts {
		// Java's split drops empty parts at the end, so "a:header," is one entry and "a:header:" has no alias.
		entries := strings.Split(strings.TrimRight(text, ","), ",")
		for _, entry := range entries {
			p, err := parsePlacement(entry)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			placements = append(placements, p)
		}
	}
	return placements, problems
}

func parsePlacement(entry string) (Placement, error) {
	parts := strings.Split(strings.TrimRight(strings.TrimSpace(entry), ":"), ":")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) != 2 && len(parts) != 3 || parts[0] == "" {
		return Placement{}, fmt.Errorf("placement %q: want column:header, column:envelope or column:partition, and :name behind it if wanted", entry)
	}
	p := Placement{Column: parts[0], Place: Place(strings.ToLower(parts[1])), Alias: parts[0]}
	if len(parts) == 3 && parts[2] != "" {
		p.Alias = parts[2]
	}
	switch p.Place {
	case PlaceHeader, PlaceEnvelope, PlacePartition:
		return p, nil
	}
	return Placement{}, fmt.Errorf("placement %q: %q is not a place; use header, envelope or partition", entry, parts[1])
}

// String is the notation that ParsePlacements reads.
func (p Placement) String() string {
	if p.Alias == p.Column {
		return p.Column + ":" + string(p.Place)
	}
	return p.Column + ":" + string(p.Place) + ":" + p.Alias
}
