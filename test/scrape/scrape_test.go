// Package scrape reads the metrics of a running operator as Prometheus does.
package scrape

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook hands back 50 operations at random. Names, types, labels and groups clash within a hook and between hooks.
const hookText = `#!/usr/bin/env python3
import json, os, random, sys
if sys.argv[1:] == ["--config"]:
    print('{"configVersion": "v1", "schedule": [{"crontab": "* * * * * *", "queue": "queue-%[1]d"}]}')
    sys.exit()
with open(os.environ["METRICS_PATH"], "w") as out:
    for _ in range(50):
        op = {"name": "metric_%%d" %% random.randrange(6), "action": random.choice(["add", "set", "observe", "expire"])}
        op["value"] = random.random() * 10
        if op["action"] == "observe":
            op["buckets"] = random.choice([[1, 2, 3], [], [5]])
        if random.random() < 0.7:
            op["labels"] = {random.choice("abc"): random.choice(["x", "y", "", "\"\\\n"]) for _ in range(2)}
        if op["action"] == "expire" or random.random() < 0.5:
            op["group"] = random.choice(["one", "two"])
        print(json.dumps(op), file=out)
print("ran")
`

// 1,000 operations from four hooks: both pages can be read at any moment, by Prometheus' own parser.
func TestScrapeAtAnyMoment(t *testing.T) {
	cluster := testenv.Shared(t)
	dir := t.TempDir()
	const hooks, runs = 4, 5
	for i := range hooks {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("hook-%d.py", i)), fmt.Appendf(nil, hookText, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	address := op.Address()

	done := make(chan struct{})
	var scraping sync.WaitGroup
	for _, page := range []string{"/metrics", "/metrics/hooks"} {
		scraping.Go(func() {
			for n := 0; ; n++ {
				if err := scrape(address + page); err != nil {
					t.Errorf("%s: %v", page, err)
					return
				}
				select {
				case <-done:
					t.Logf("%s was read %d times", page, n+1)
					return
				default:
				}
			}
		})
	}
	op.Until("five runs of each hook", func(records []testenv.Record) bool {
		ended := map[string]int{}
		for _, r := range records {
			if r.Has("Hook executed successfully") {
				ended[r.Fields["hook"]]++
			}
		}
		for i := range hooks {
			if ended[fmt.Sprintf("hook-%d.py", i)] < runs {
				return false
			}
		}
		return true
	})
	close(done)
	scraping.Wait()
	for _, r := range op.Records() {
		if r.Has("Hook failed") {
			t.Error(r.Text)
		}
	}
}

func scrape(address string) error {
	res, err := http.Get(address)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	_, err = parser.TextToMetricFamilies(res.Body)
	return err
}
