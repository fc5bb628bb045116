package kafka

import (
	"testing"

	"github.com/walrelay/walrelay/internal/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
