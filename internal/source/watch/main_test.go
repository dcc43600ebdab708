package watch

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/runtime"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) {
	runtime.ErrorHandlers = nil // one compares times of a bubble with those outside, and sleeps for years
	testenv.Main(m)
}
