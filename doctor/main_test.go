package doctor

import (
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

func TestMain(m *testing.M) { kafkatest.Main(m, pgtest.CloseShared) }
