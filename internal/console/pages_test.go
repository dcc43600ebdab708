package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// hostile is a name that is a trap for browsers and terminals.
const hostile = "<img src=x onerror=\"document.title='caught'\"><b hx-get=/x " +
	"hx-on:click=\"alert(1)\">'\x1b[31m\x00\u202e\u0085</script>{{.}}"

// everywhere answers all routes with a text in each field.
func everywhere(f *fake, text string) {
	at := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	run := map[string]any{
		"id": text, "task": text, "hook": text, "queue": text, "key": "Order/" + text, "binding": text, "event": text,
		"why": []string{text, text}, "events": 9, "attempt": 2, "status": "failed", "started": at, "waited": 1.5, "took": 2.5, "exit": text,
		"error": text, "answer": text, "message": text, "output": text, "outputCut": true, "worker": text, "patchCount": 30,
		"patches": []any{map[string]any{"operation": "MergePatch", "kind": text, "namespace": text, "name": text, "outcome": "failed",
			"warnings": []string{text}}},
		"kubectl": []any{map[string]any{"verb": text, "way": text, "reason": text, "count": 3}},
		"phases": []any{map[string]any{"name": "waiting", "started": at, "took": 1.5}, map[string]any{"name": text, "started": at, "took": 1},
			map[string]any{"name": "applying", "started": at, "took": 0.5}},
	}
	lane := map[string]any{"key": "Order/shop/" + text, "tasks": 3, "phase": "sleeping", "for": 3, "failures": 2, "retryIn": 7, "error": text,
		"hook": text, "about": text}
	f.set("/status.json", map[string]any{
		"version": "v9", "notReady": text, "cluster": "https://" + text, "instance": text, "role": "leader",
		"hooks": []any{map[string]any{"name": text, "state": "failing", "objects": 3, "lastRun": run, "bindings": []any{
			map[string]any{"type": "kubernetesValidating", "name": text, "about": text, "queue": text, "state": "not registered"},
			map[string]any{"type": "kubernetes", "name": text, "about": text, "queue": text, "state": "watching", "objects": 3},
		}, "workers": []any{map[string]any{"worker": 1, "state": text, "pid": 7, "started": at, "runs": 3}}}},
		"queues": []any{map[string]any{"name": text, "tasks": 4, "phase": "sleeping", "for": 3, "head": text, "failures": 2,
			"retryIn": 3, "lanes": 2,
			"delayed": 1, "requeues": map[string]any{"events": 12, "objects": 12, "next": 2.5}}},
		"failures": []any{run},
		"troubles": []any{map[string]any{"kind": "queue", "hooks": []string{text}, "queue": text, "since": at, "subject": text,
			"problem": text, "hint": text},
			map[string]any{"kind": "paused", "hooks": []string{text}, "subject": text, "problem": text, "notice": true}},
	})
	escaped := segments(text)
	f.set("/hook/"+escaped+"/why.json", map[string]any{"hook": text, "verdict": "blocked", "lastRun": text,
		"reasons": []any{map[string]any{"kind": "queue", "blocks": true, "text": text, "hint": text}}})
	f.set("/run/list.json"+queryOf("hook", text), []any{run})
	f.set("/run/list.json?all=true", []any{run})
	f.set("/operation/list.json", map[string]any{"operations": []any{map[string]any{"hook": text, "operation": "MergePatch", "namespace": text,
		"group": text, "resource": text, "verbs": []string{"patch"}, "first": at}}})
	f.set("/run/"+escaped+".json", run)
	f.set("/run/"+escaped+"/context.json", []any{map[string]any{"binding": text, "type": "Event", "object": map[string]any{text: text}}})
	f.set("/hook/list.json", []string{text})
	for _, key := range []string{"", "?key=" + url.QueryEscape(text)} {
		f.set("/queue/"+escaped+"/lanes.json"+key, map[string]any{"queue": text, "keyed": true, "concurrency": 4, "count": 900, "matching": 900,
			"delayed": 1, "lanes": []any{lane}})
	}
	f.set("/object/Order/shop/"+escaped+".json", map[string]any{"kind": "Order", "namespace": "shop", "name": text,
		"deleting": true, "conditions": []any{map[string]any{"type": "Ready", "status": text, "reason": text, "message": text}},
		"bindings": []any{map[string]any{"hook": text, "binding": text, "state": "watching", "problem": text, "finalizer": text,
			"hasFinalizer": true, "deleting": true, "queue": text, "key": text, "lane": lane, "events": 2, "before": 1,
			"parked":  []any{map[string]any{"id": text, "contexts": 1, "attempts": 3, "since": at, "error": text}},
			"requeue": map[string]any{"due": at}}},
		"sets": []any{map[string]any{"id": text, "set": text, "hook": text, "state": "drifted", "reason": text},
			map[string]any{"id": text, "set": text, "hook": text, "owner": true, "memberCount": 8, "members": []any{
				map[string]any{"kind": "ConfigMap", "namespace": "shop", "name": text, "state": "applied"}}}}, "runs": []any{run}})
	f.set("/parked/list.json", []any{map[string]any{"id": text, "hook": text, "queue": text, "key": text, "bindings": []string{text},
		"about": []string{text}, "contexts": 2, "attempts": 3, "since": at, "error": text, "gaveUp": true}})
	set := map[string]any{"id": text, "set": text, "hook": text, "owner": text, "namespace": text, "problem": text,
		"objects": []any{map[string]any{"kind": text, "namespace": text, "name": text, "state": "drifted", "reason": text}}}
	f.set("/sets/list.json", []any{set})
	f.set("/sets/"+escaped+".json", set)
	f.set("/finalizers/list.json", []any{map[string]any{"finalizer": text, "resource": text, "instance": text, "hook": text, "binding": text,
		"orphan": true, "objects": 3}})
	f.set("/parked/retry.json dry", map[string]any{"count": 1, "message": text})
	f.set("/parked/retry.json", map[string]any{"count": 1, "message": text, "task": text})
	f.set("/queue/"+escaped+"/retry.json dry", &refusal{text: text, hint: text})
}

// pagesOf are the addresses of all pages about a text.
func pagesOf(text string) []string {
	name, query := segments(text), url.QueryEscape(text)
	return []string{"/", "/hooks/" + name, "/queues/" + name, "/queues/" + name + "?key=" + query, "/runs/" + name,
		"/objects/Order/shop/" + name, "/parked", "/sets", "/sets/" + name, "/finalizers", "/live",
		"/live?hook=" + query + "&text=" + query, "/search?q=" + query, "/act/parked/retry?id=" + query, "/act/queue/retry?name=" + query,
		"/runs/unknown", "/act/nonsense", "/objects/Order/shop/unknown"}
}

// elements are the elements of the templates.
var elements = strings.Fields(`html head meta title link script body a header nav form label input div main h1 h2 h3 p strong small section
	ul li ol table thead tbody tr th td span time code pre details summary mark footer button select option br noscript hx-partial`)

// htmxAttributes are the attributes for htmx in the templates.
var htmxAttributes = strings.Fields("hx-sse:connect hx-swap hx-get hx-trigger hx-sync hx-target")

// structure is the page as elements and attributes, without texts: hostile names have the same structure as harmless ones.
func structure(t *testing.T, page string) string {
	t.Helper()
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			b.WriteString(token.Data)
			if !slices.Contains(elements, token.Data) {
				t.Errorf("element <%s>", token.Data)
			}
			for _, a := range token.Attr {
				b.WriteString(" " + a.Key)
				switch {
				case a.Key == "style" || strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on"):
					t.Errorf("attribute %s=%q", a.Key, a.Val)
				case strings.HasPrefix(a.Key, "hx-") && !slices.Contains(htmxAttributes, a.Key):
					t.Errorf("attribute %s", a.Key)
				case (a.Key == "href" || a.Key == "action" || a.Key == "src" || a.Key == "hx-get" || a.Key == "hx-sse:connect") &&
					!strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#"):
					t.Errorf("%s=%q is no page of the console", a.Key, a.Val)
				case strings.ContainsAny(a.Val, "\x1b\x00\u202e") && a.Key != "value":
					t.Errorf("%s has control characters: %q", a.Key, a.Val)
				}
			}
			b.WriteString("\n")
		case html.TextToken:
			if text := z.Token().Data; strings.ContainsAny(text, "\x1b\x00\u202e\u0085") {
				t.Errorf("control characters in %q", text)
			}
		}
	}
}

// TestHostileNamesAreText: markup, attributes of htmx and control characters in names, keys, outputs and errors are text on every page.
func TestHostileNamesAreText(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, hostile)
	pages := map[string]string{}
	for _, path := range pagesOf(hostile) {
		page := b.get(path)
		pages[path] = structure(t, page)
		if t.Failed() {
			t.Fatalf("on %s:\n%s", path, page)
		}
		if structure(t, b.poll(path)); t.Failed() {
			t.Fatalf("on an update of %s", path)
		}
	}
	harmless := "ha/rm/less" + strings.Repeat("s", len(hostile)) // it has two slashes, and is long, too
	everywhere(f, harmless)
	for i, path := range pagesOf(harmless) {
		if got := structure(t, b.get(path)); got != pages[pagesOf(hostile)[i]] {
			t.Errorf("%s has another structure with a hostile name", path)
		}
	}
}

// TestLongLines: lines of a mebibyte make no page that a browser cannot lay out.
func TestLongLines(t *testing.T) {
	b, f, _ := started(t)
	long := strings.Repeat("x", 1<<20)
	f.set("/run/1-1.json", map[string]any{"id": "1-1", "hook": "a.sh", "status": "failed", "output": long, "error": long,
		"why": []string{long}})
	f.set("/run/1-1/context.json", []any{map[string]any{"binding": long}, long})
	f.set("/parked/list.json", []any{map[string]any{"id": "1", "hook": "a.sh", "error": long}})
	for path, fields := range map[string]int{"/runs/1-1": 6, "/parked": 1} {
		text := b.get(path)
		has(t, text, "more bytes")
		if len(text) > (fields+1)*shownText {
			t.Errorf("%s has %d bytes", path, len(text))
		}
	}
}

// TestPages: each page shows what the operator knows, and the command that opens it elsewhere.
func TestPages(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "blue")
	for path, want := range map[string][]string{
		"/": {"<title>Overview", "✕ blue</strong> <span class=\"soft\">since ", "‖ blue", "✕ 2 problems</a>",
			"cluster <strong>https://blue</strong>", "instance <strong>blue</strong>", "leader</span>",
			"· blue · shell-operator</title>",
			"/act/queue/skip?name=blue", "12 objects are delivered again, the next in 2.5s"},
		"/hooks/blue": {"<title>Hook blue", "blocked", "not registered", ">queue</th>", ">key</th>", ">waited</th>", "/objects/Order/blue",
			"/act/hook/trigger?binding=blue&amp;name=blue",
			"MergePatch", ">patch</td>", "shell-operator rbac --from-runs --debug-unix-socket /s", "Resume…"},
		"/queues/blue": {"1 of 900 lanes", "12 objects are delivered again, the next in 2.5s", "Order/shop/blue", "sleeping", "in 7s",
			"/act/queue/retry?key=Order%2Fshop%2Fblue&amp;name=blue",
			"shell-operator console /queues/blue --debug-unix-socket /s"},
		"/runs/blue": {"attempt 2 of task blue", "and 7 more", "The end of it", "and 29 more", "3 × blue", "runs save blue",
			"waiting</th>", "applying</th>", "<summary>Context 1"},
		"/objects/Order/shop/blue": {"does not see the object", "is being deleted and has", "2 events of it behind 1 task",
			"/act/parked/drop?id=blue",
			"drifted", "It is being deleted", ">Ready</th>", "in 0s, at", "/objects/ConfigMap/shop/blue", "and 7 more"},
		"/parked":                 {"gave up: blue", "/act/parked/drop?id=blue"},
		"/sets":                   {"its record blue", "/act/sets/delete?set=blue"},
		"/sets/blue":              {"drifted", "/objects/blue/blue/blue"},
		"/finalizers":             {"orphaned with 3 objects", "/act/finalizers/remove?instance=blue&amp;name=blue&amp;yes=true"},
		"/live":                   {`hx-sse:connect="` + b.console.access.base + `/stream/live"`},
		"/search?q=blue":          {"/hooks/blue", "/runs/blue", "/queues/blue"},
		"/search?q=Order/eu/o-17": {"Nothing is found.", "there is no /object/Order/eu/o-17"},
		"/act/parked/retry?id=blue": {"This would happen:", "shell-operator parked retry blue --debug-unix-socket /s",
			`/act/parked/retry?id=blue&amp;seen=`},
		"/act/queue/retry?name=blue&key=a+b": {"It was not done", "shell-operator queue retry blue --key &#39;a b&#39; --debug-unix-socket /s"},
		"/act/queue/retry?name=blue&key=": {"shell-operator queue retry blue --key &#39;&#39; --debug-unix-socket /s",
			`/act/queue/retry?key=&amp;name=blue&amp;seen=`},
		"/act/queue/retry?name=blue":          {"shell-operator queue retry blue --debug-unix-socket /s", `/act/queue/retry?name=blue&amp;seen=`},
		"/act/queue/skip?name=blue&key=a%0Ab": {`/act/queue/skip?key=a%0Ab&amp;name=blue&amp;seen=`},
	} {
		has(t, b.get(path), want...)
	}
	for path, never := range map[string]string{"/": "/act/queue/retry", "/act/parked/retry?id=blue": "Done"} {
		f.set("/status.json", map[string]any{"version": "v9", "healthy": true})
		hasNot(t, b.get(path), never)
	}
}

// TestExactHit: a search for the whole name of one thing opens it, one for a part or for several lists them.
func TestExactHit(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "blue")
	f.set("/status.json", map[string]any{"version": "v9", "hooks": []any{map[string]any{"name": "shop/a.sh"}, map[string]any{"name": "main"}},
		"queues": []any{map[string]any{"name": "main"}}})
	f.set("/run/list.json?all=true", []any{map[string]any{"id": "7-3", "task": "7", "hook": "shop/a.sh"}})
	for query, want := range map[string]string{"shop/a.sh": "/hooks/shop/a.sh", "7-3": "/runs/7-3",
		"Order/shop/blue": "/objects/Order/shop/blue",
		"7":               "", "main": "", "shop/a": "", "Order/shop/red": ""} {
		w := b.request("GET", "/search?q="+url.QueryEscape(query), nil, nil)
		got := strings.TrimPrefix(w.Header().Get("Location"), b.console.access.base)
		if got != want || (w.Code == http.StatusSeeOther) != (want != "") {
			t.Errorf("%s: %d %q, want %q", query, w.Code, got, want)
		}
	}
}

// TestUncleanNames: an address of a name with empty segments or dots is one of the console, which no browser and no mux cleans.
func TestUncleanNames(t *testing.T) {
	b, f, _ := started(t)
	for _, name := range []string{"a//b", "/a", "a/", "x/../y", "./a", "%2e/ü"} {
		address := segments(name)
		has(t, b.get("/queues/"+address), "<title>Queue "+name)
		if last := f.gets[len(f.gets)-1]; last != "/queue/"+address+"/lanes.json" {
			t.Errorf("%q: the operator is asked for %s", name, last)
		}
	}
	f.set("/sets/4.json", map[string]any{"id": "4", "objects": []any{map[string]any{"kind": "ClusterRole", "name": "reader"}}})
	has(t, b.get("/sets/4"), "/objects/ClusterRole/reader\"", ">ClusterRole/reader<")
}

// TestUnknownQueue: a queue that is not there is not idle, and nothing can be done with it.
func TestUnknownQueue(t *testing.T) {
	b, f, _ := started(t)
	f.set("/queue/nope/lanes.json", &refusal{text: "there is no queue \"nope\"", hint: "queue list shows all"})
	text := b.get("/queues/nope")
	has(t, text, "there is no queue", "queue list shows all")
	hasNot(t, text, "idle", "/act/")
}

// TestShard: the overview shows which shard the replica has, and who has the others.
func TestShard(t *testing.T) {
	b, f, at := started(t)
	for _, test := range []struct {
		shard map[string]any
		want  string
	}{
		{map[string]any{"shard": 0, "shards": 3, "division": "1a2b", "serving": true, "holders": []string{"operator-0", "", "long-gone"}},
			"✓ shard 0/3 of division 1a2b, for 60s. This console shows one replica."},
		{map[string]any{"shards": 2, "division": "1a2b", "waits": "a Lease that is <free>", "holders": []string{"operator-1", ""}},
			"‖ standby of division 1a2b, waits for a Lease that is &lt;free&gt;, for 60s; owners of shards: 0 operator-1, 1 none. " +
				"This console shows one replica."},
	} {
		test.shard["since"] = at.Now().Add(-time.Minute)
		f.set("/status.json", map[string]any{"shard": test.shard, "hooks": []any{map[string]any{"name": "a.sh", "state": "standby"}}})
		text := b.get("/")
		has(t, text, test.want)
		hasNot(t, text, "another one runs the hooks")
	}
}

// TestLaneWithoutKey: the actions of a lane are about that lane, also if its key is empty; a queue without keys has one lane.
func TestLaneWithoutKey(t *testing.T) {
	b, f, _ := started(t)
	for keyed, want := range map[bool]string{true: "/act/queue/retry?key=&amp;name=blue\"", false: "/act/queue/retry?name=blue\""} {
		f.set("/queue/blue/lanes.json", map[string]any{"queue": "blue", "keyed": keyed, "count": 1, "matching": 1,
			"lanes": []any{map[string]any{"key": "", "phase": "sleeping", "failures": 1, "tasks": 1}}})
		has(t, b.get("/queues/blue"), want)
	}
}

// TestMissingRoutes: a route that the operator does not answer is named in its place, and the rest of the page is there.
func TestMissingRoutes(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "blue")
	f.set("/queue/blue/lanes.json", nil)
	f.set("/run/list.json?hook=blue", nil)
	has(t, b.get("/queues/blue"), "there is no /queue/blue/lanes", "Pause…")
	has(t, b.get("/hooks/blue"), "there is no /run/list", "Bindings")
	// Without phases, they are made of the times of the run.
	f.set("/run/7.json", map[string]any{"id": "7", "hook": "blue", "queue": "main", "waited": 1, "took": 2, "status": "succeeded"})
	has(t, b.get("/runs/7"), "waiting</th>", "process</th>", "no previous run is known")
}

// TestActions: each asks before it acts, and sends what it has shown.
func TestActions(t *testing.T) {
	b, f, _ := started(t)
	everywhere(f, "4")
	has(t, b.get("/act/parked/retry?id=4"), "This would happen", "Queue parked tasks again")
	if want := []string{"/parked/retry.json?dryRun=true&id=4"}; !slices.Equal(f.posts, want) {
		t.Errorf("%v", f.posts)
	}
	has(t, b.act("/act/parked/retry?id=4"), "Done", "/runs/4")
	if last := f.posts[len(f.posts)-1]; last != "/parked/retry.json?id=4" {
		t.Errorf("%v", f.posts)
	}
	// Meanwhile the operator has started again, and the task with the id is another one.
	address := b.form("/act/parked/retry?id=4")
	f.set("/parked/retry.json dry", map[string]any{"count": 1, "message": "dry run: another task is queued again"})
	has(t, b.request("POST", address, url.Values{}, nil).Body.String(), "something else now than what was on the page",
		"another task is queued again", "Queue parked tasks again")
	has(t, b.request("POST", "/act/parked/retry?id=4", url.Values{}, nil).Body.String(), "something else now")
	if last := f.posts[len(f.posts)-1]; last != "/parked/retry.json?dryRun=true&id=4" {
		t.Errorf("%v", f.posts)
	}
	// The time of a request is no change.
	f.set("/parked/retry.json dry", map[string]any{"count": 1, "message": "dry run: until 07:00:01"})
	address = b.form("/act/parked/retry?id=4")
	f.set("/parked/retry.json dry", map[string]any{"count": 1, "message": "dry run: until 07:00:09"})
	has(t, b.request("POST", address, url.Values{}, nil).Body.String(), "Done")
	f.set("/parked/retry.json dry", map[string]any{"message": "dry run: no parked tasks"})
	text := b.get("/act/parked/retry?id=4")
	has(t, text, "There is nothing to do", ">no parked tasks")
	hasNot(t, text, `class="do"`)
	f.set("/parked/retry.json", &refusal{text: "commands that change something are not accepted from hooks",
		hint: "run the command outside of hooks"})
	f.set("/parked/retry.json dry", map[string]any{"count": 1})
	has(t, b.act("/act/parked/retry?id=4"), "It was not done", "not accepted from hooks")
	// Fields that the action does not have are not sent.
	b.get("/act/parked/drop?id=4&force=true&dryRun=false")
	if last := f.posts[len(f.posts)-1]; last != "/parked/drop.json?dryRun=true&id=4" {
		t.Errorf("%s", last)
	}
}

// form is the address of the form of a page, below the base.
func (b *browser) form(page string) string {
	b.t.Helper()
	_, rest, ok := strings.Cut(b.get(page), `method="post" action="`+b.console.access.base)
	address, _, _ := strings.Cut(rest, `"`)
	if !ok {
		b.t.Fatalf("%s has no form", page)
	}
	return html.UnescapeString(address)
}

// act is the page after an action.
func (b *browser) act(page string) string {
	b.t.Helper()
	return b.request("POST", b.form(page), url.Values{}, nil).Body.String()
}

// messages are the messages in a stream of server-sent events.
func messages(t *testing.T, b *browser, path string) (<-chan string, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+b.console.access.host+b.console.access.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(b.cookie)
	res, err := http.DefaultClient.Do(r) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string)
	go func() {
		defer close(all)
		defer res.Body.Close()
		text := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if line := lines.Text(); line != "" {
				text += line + "\n"
				continue
			}
			select {
			case all <- text:
			case <-ctx.Done():
				return
			}
			text = ""
		}
	}()
	return all, cancel
}

// until waits for a message with a text.
func until(t *testing.T, all <-chan string, want string) string {
	t.Helper()
	for m := range all {
		if strings.Contains(m, want) {
			return m
		}
	}
	t.Fatalf("the stream has ended without %q", want)
	return ""
}

// TestLive: entries are in the stream as they come, filtered, and the stream survives the operator.
func TestLive(t *testing.T) {
	b, f, at := started(t)
	f.set("/hook/list.json", []string{"a.sh"})
	all, cancel := messages(t, b, "/stream/live?outcome=failed&text=disk")
	defer cancel()
	until(t, all, "hx-target") // it is connected
	n := int64(0)
	entry := func(kind, text string) string {
		n++
		line, _ := json.Marshal(map[string]any{"time": time.Unix(n, 0), "hook": "a.sh", "run": "1-1", "kind": kind, "text": text})
		return string(line)
	}
	f.say(t, entry("printed", "disk"))
	f.say(t, entry("ended", "succeeded after 1s: disk"))
	f.say(t, entry("ended", "failed after 1s: network"))
	last := entry("ended", "failed after 1s: "+hostile+" disk")
	f.say(t, last)
	got := until(t, all, "<li")
	if strings.Count(got, "<li") != 1 || !strings.Contains(got, "&lt;img") {
		t.Errorf("%s", got)
	}
	structure(t, strings.ReplaceAll(got, "data: ", ""))
	f.fail(errors.New("the operator is gone"))
	until(t, all, "the operator is gone")
	at.add(time.Hour)
	f.fail(nil)
	until(t, all, `<hx-partial hx-target="#lost" hx-swap="innerHTML"></hx-partial>`)
	f.say(t, last) // a tail begins with the last runs, which have been shown
	f.say(t, entry("ended", "failed after 2s: disk again"))
	if got := until(t, all, "<li"); strings.Contains(got, "&lt;img") || !strings.Contains(got, "disk again") ||
		!strings.Contains(got, "id: 1970-01-01T00:00:05Z") {
		t.Errorf("%s", got)
	}
	for _, path := range f.gets {
		if strings.Contains(path, "tail.json") && path != "/tail.json?last=50" {
			t.Errorf("the console requests %s", path)
		}
	}
}

// TestRunInProgress: the page of a run is read again while it runs, keeps its output while the operator does not know the run, and is
// loaded once more at its end: then it has the contexts, and is not read again.
func TestRunInProgress(t *testing.T) {
	b, f, _ := started(t)
	run := map[string]any{"id": "2-1", "hook": "a.sh", "status": "running", "output": "first line\n"}
	f.set("/run/2-1.json", run)
	f.set("/run/list.json?all=true&hook=a.sh", []any{run, map[string]any{"id": "1-1"}})
	const polled = `hx-trigger="every 2s"`
	has(t, b.get("/runs/2-1"), polled, "first line", "previous 1-1")
	f.set("/run/2-1.json", &refusal{text: "hooks are still being loaded"})
	if m := b.poll("/runs/2-1"); strings.Contains(m, "<h1>") || !strings.Contains(m, "hooks are still being loaded") {
		t.Errorf("the page is replaced by\n%s", m)
	}
	f.set("/run/2-1.json", map[string]any{"id": "2-1", "hook": "a.sh", "status": "succeeded", "exit": "exit status 0"})
	f.set("/run/2-1/context.json", []any{map[string]any{"binding": "orders"}})
	w := b.request("GET", "/runs/2-1", nil, func(r *http.Request) { r.Header.Set("HX-Request", "true") })
	if w.Header().Get("HX-Refresh") != "true" {
		t.Errorf("the page is not loaded again: %v", w.Header())
	}
	text := b.get("/runs/2-1")
	has(t, text, "exit status 0", "Context 1 · orders")
	hasNot(t, text, polled)
}

// TestWords: commands can be pasted into a shell as they are.
func TestWords(t *testing.T) {
	for word, want := range map[string]string{
		"pods.sh": "pods.sh", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "a\nb'": `$'a\x0ab\x27'`,
		"Order/eu/o-17": "Order/eu/o-17", "é": "'é'",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s", word, got)
		}
	}
}
