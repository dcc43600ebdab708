package debug

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestReviews plays reviews: + succeeds, - fails, a number waits for seconds. Expected is "failed of all", or nothing.
func TestReviews(t *testing.T) { synctest.Test(t, testReviews) }

func testReviews(t *testing.T) {
	for script, want := range map[string]string{
		"":                    "",
		"+":                   "",
		"-":                   "1 of 1",
		"+ -":                 "1 of 2",
		"+ + -":               "",
		"+ + + - - -":         "3 of 6",
		"- - - 61":            "",
		"- - - - - 61":        "5 of 5",
		"- - - - - 600":       "5 of 5",
		"- - - - - 61 +":      "",
		"- - - 40 - - 40":     "2 of 2",
		"+ + + + - - - - - +": "5 of 10",
		"+ + + + + + + - - -": "",
		"- - 61 + + -":        "",
	} {
		r := Reviews{}
		of := Reviewed{"a.sh", "b"}
		for word := range strings.FieldsSeq(script) {
			switch word {
			case "+", "-":
				r.Add(of, word == "-")
			default:
				d, err := time.ParseDuration(word + "s")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(d)
			}
		}
		got := ""
		if failed, all := r.Failing(of); failed > 0 {
			got = fmt.Sprintf("%d of %d", failed, all)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
		if failed, _ := r.Failing(Reviewed{"other.sh", "b"}); failed > 0 {
			t.Errorf("%q: another hook fails", script)
		}
		r.Forget()
		if failed, _ := r.Failing(of); failed > 0 {
			t.Errorf("%q: it is not forgotten", script)
		}
	}
}

// TestReviewsModel compares with the whole list of reviews.
func TestReviewsModel(t *testing.T) { synctest.Test(t, testReviewsModel) }

func testReviewsModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := Reviews{}
		type review struct {
			at     int64
			failed bool
		}
		var list []review
		for range 200 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
			now := time.Now().Unix()
			one := review{now, rng.IntN(3) > 0 == (seed%2 == 0)}
			list = append(list, one)
			r.Add(Reviewed{}, one.failed)
			failed, all, inRow := 0, 0, 0
			for _, v := range list {
				inRow++
				if !v.failed {
					inRow = 0
				}
				if v.at > now-60 {
					all++
					if v.failed {
						failed++
					}
				}
			}
			want := failed > 0 && 2*failed >= all || inRow >= 5
			if got, _ := r.Failing(Reviewed{}); (got > 0) != want {
				t.Fatalf("seed %d: %v, want %v after %v", seed, got, want, list)
			}
		}
	}
}
