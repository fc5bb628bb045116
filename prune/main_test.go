package prune_test

import (
	"testing"

	"github.com/walrelay/walrelay/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
