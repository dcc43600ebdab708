package conversion

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestFailureLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newFailureLog(testLog(&text))
		for range 700 { // of 100 ms
			l.log(widgets, "u", "no", errors.New("no"))
			time.Sleep(100 * time.Millisecond)
		}
		l.log(widgets, "u", "other", errors.New("other"))
		const want = `level=ERROR msg="conversion failed" crd=widgets.acme.dev uid=u error=no
level=ERROR msg="conversion failed" crd=widgets.acme.dev uid=u error=no again=599
level=ERROR msg="conversion failed" crd=widgets.acme.dev uid=u error=other
`
		if text.String() != want {
			t.Errorf("got\n%swant\n%s", text.String(), want)
		}
		for i := range 1000 {
			l.log(widgets, "u", strconv.Itoa(i), errors.New("no"))
		}
		if n := len(l.logged); n > manyFailures {
			t.Errorf("%d failures are remembered", n)
		}
	})
}
