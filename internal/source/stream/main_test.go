package stream

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
