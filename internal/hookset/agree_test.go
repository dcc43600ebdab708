package hookset

import (
	"errors"
	"strings"
	"testing"
)

// Bindings of a keyed queue agree, in one hook and across hooks. Schedules only name it.
func TestKeyedQueuesAgree(t *testing.T) {
	o, _ := options(t, answers{
		"a.sh": prints(`{configVersion: v1, kubernetes: [{name: first, kind: Pod, queue: plain}, {name: orders, kind: Pod, queue: {name: q, `+
			`key: object, concurrency: 8}}]}`, "", nil),
		"b.sh": prints(`{configVersion: v1, kubernetes: [{name: named, kind: Pod, queue: q}, {name: other, kind: Pod, queue: {name: q, `+
			`key: namespace, concurrency: 8}}]}`, "", nil),
		"c.sh": prints(`{configVersion: v1, kubernetes: [{name: fewer, kind: Pod, queue: {name: q, key: object}}]}`, "", nil),
		"d.sh": prints(`{configVersion: v1, kubernetes: [{name: same, kind: Pod, queue: {name: q, key: object, concurrency: 8}}], `+
			`schedule: [{crontab: '@hourly', queue: q}]}`, "", nil),
		"e.sh": prints(`{configVersion: v1, onStartup: no}`, "", nil), // all problems are reported together
	})
	_, err := Load(t.Context(), o)
	const want = `cannot load hooks: hook "b.sh": the configuration is not valid, 2 problems:
  * kubernetes[0].queue (binding "named") declares queue "q" with no key, but kubernetes[1].queue (binding "orders") of hook "a.sh" with key "object" and concurrency 8: declare the same key and concurrency in all kubernetes bindings of a queue, or use another name
  * kubernetes[1].queue (binding "other") declares queue "q" with key "namespace" and concurrency 8, but kubernetes[1].queue (binding "orders") of hook "a.sh" with key "object" and concurrency 8: declare the same key and concurrency in all kubernetes bindings of a queue, or use another name
hook "c.sh": the configuration is not valid:
  * kubernetes[0].queue (binding "fewer") declares queue "q" with key "object" and concurrency 1, but kubernetes[1].queue (binding "orders") of hook "a.sh" with key "object" and concurrency 8: declare the same key and concurrency in all kubernetes bindings of a queue, or use another name
hook "e.sh":`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("got\n%v\nwant\n%s", err, want)
	}
	var load *LoadError
	if !errors.As(err, &load) || len(load.Causes()) != 3 {
		t.Errorf("causes of %v", err)
	}
}
