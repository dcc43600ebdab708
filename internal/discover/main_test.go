package discover

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
