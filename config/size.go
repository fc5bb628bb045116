package config

import (
	"errors"
	"strconv"
	"strings"
)

// Size is a number of bytes. As text it is a plain number, or one with KiB, MiB or GiB.
type Size int

var units = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

var errSize = errors.New("want a number of bytes, such as 900000, 64KiB or 8MiB")

// UnmarshalText reads a size. KB and MB are refused, since they mean 1000 to some and 1024 to others.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), 1
	for _, unit := range units {
		if before, ok := strings.CutSuffix(number, unit.name); ok {
			number, factor = strings.TrimSpace(before), unit.bytes
			break
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40/factor {
		return errSize
	}
	*s = Size(n * factor)
	return nil
}

// String is the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range units {
		if s != 0 && int(s)%unit.bytes == 0 {
			return strconv.Itoa(int(s)/unit.bytes) + unit.name
		}
	}
	return strconv.Itoa(int(s))
}
