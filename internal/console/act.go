package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// action is what a person can do on a page: a route of the debug API, and the command that calls it.
type action struct {
	// name is that of the action in addresses: that of the route without the name in its path.
	name string
	// route may have a "*": the field "name".
	route string
	verb  string
	// words are those of the command, before the name; flags are those of its other fields, "" for an argument.
	words []string
	flags []field
	back  string
}

// field is one of a form, and the flag of the command that sets it.
type field struct{ name, flag string }

var actions = []action{
	{"hook/trigger", "/hook/*/trigger", "Run the hook", []string{"hook", "trigger"}, []field{{"binding", ""}}, "/hooks/*"},
	{"hook/pause", "/hook/*/pause", "Pause the hook", []string{"hook", "pause"}, nil, "/hooks/*"},
	{"hook/resume", "/hook/*/resume", "Resume the hook", []string{"hook", "resume"}, nil, "/hooks/*"},
	{"hook/record", "/hook/*/record", "Record all runs", []string{"hook", "record"}, []field{{"for", "--for"}}, "/hooks/*"},
	{"queue/retry", "/queue/*/retry", "Begin the next attempt", []string{"queue", "retry"}, []field{{"key", "--key"}}, "/queues/*"},
	{"queue/skip", "/queue/*/skip", "Drop the failed task", []string{"queue", "skip"}, []field{{"key", "--key"}}, "/queues/*"},
	{"queue/pause", "/queue/*/pause", "Pause the queue", []string{"queue", "pause"}, nil, "/queues/*"},
	{"queue/resume", "/queue/*/resume", "Resume the queue", []string{"queue", "resume"}, nil, "/queues/*"},
	{"parked/retry", "/parked/retry", "Queue it again", []string{"parked", "retry"}, []field{{"id", ""}, {"all", "--all"}}, "/parked"},
	{"parked/drop", "/parked/drop", "Drop it", []string{"parked", "drop"}, []field{{"id", ""}, {"all", "--all"}}, "/parked"},
	{"sets/delete", "/sets/delete", "Delete the set", []string{"sets", "delete"}, []field{{"set", ""}, {"force", "--force"}}, "/sets"},
	{"sets/adopt", "/sets/adopt", "Move the set", []string{"sets", "adopt"},
		[]field{{"set", ""}, {"toHook", "--to-hook"}, {"toSet", "--to-set"}, {"force", "--force"}}, "/sets"},
	{"finalizers/remove", "/finalizers/remove", "Remove the finalizer", []string{"finalizers", "remove"},
		[]field{{"name", ""}, {"instance", "--instance"}, {"yes", "--yes"}}, "/finalizers"},
}

// actData is what the page shows that asks before an action, and the one after it.
type actData struct {
	Verb, Command, Back string
	// Action is the address of the form. It has the fields: a form would change the line ends of their values.
	Action string
	// Would is what would be done, Nothing reports that this is nothing; Done is what was done. Task is one that was queued.
	Would, Done, Task string
	Nothing           bool
	// Changed: the operator would do something else than what was on the page.
	Changed bool
	// Unknown: whether it was done is not known, because the operator has not answered.
	Unknown bool
	Problem *problem

	route string
	form  url.Values
}

// acted is the answer of an action.
type acted struct {
	Count         int
	Task, Message string
}

// chosen is the action that a request names, with its form.
func (c *Console) chosen(r *http.Request) (page, *actData, error) {
	name := r.PathValue("action")
	i := slices.IndexFunc(actions, func(a action) bool { return a.name == name })
	if i < 0 {
		return page{Title: "Not found"}, nil, errors.New("there is no such action")
	}
	a, form := actions[i], url.Values{}
	if err := r.ParseForm(); err != nil {
		return page{Title: a.verb}, nil, err
	}
	words, of := slices.Clone(a.words), r.Form.Get("name")
	if strings.Contains(a.route, "*") {
		words = append(words, of)
	}
	for _, f := range a.flags {
		value := r.Form.Get(f.name)
		if value == "" && (f.name != "key" || !r.Form.Has(f.name)) { // a lane may have an empty key
			continue
		}
		form.Set(f.name, value)
		switch {
		case f.flag == "":
			words = append(words, value)
		case value == "true":
			words = append(words, f.flag)
		default:
			words = append(words, f.flag, value)
		}
	}
	fields := maps.Clone(form)
	if of != "" {
		fields.Set("name", of)
	}
	d := &actData{Verb: a.verb, Command: c.command(words...), Action: c.access.base + "/act/" + a.name + "?" + fields.Encode(),
		Back:  c.access.base + strings.Replace(a.back, "*", segments(of), 1),
		route: strings.Replace(a.route, "*", segments(of), 1), form: form}
	return page{Title: a.verb, content: "act", Data: d, Still: true}, d, nil
}

// ask shows what an action would do, before it is done.
func (c *Console) ask(r *http.Request) (page, error) {
	p, d, err := c.chosen(r)
	if err == nil {
		err = c.would(r, d)
	}
	return p, err
}

// would is what an action would do now. The address of the form gets a digest of it.
func (c *Console) would(r *http.Request, d *actData) error {
	form := maps.Clone(d.form)
	form.Set("dryRun", "true")
	done, err := c.send(r, form, d)
	d.Would, d.Nothing = strings.TrimPrefix(done.Message, "dry run: "), done.Count == 0
	d.Action += "&seen=" + seen(d.Would)
	return err
}

// times of the day are those of the request.
var timeOfDay = regexp.MustCompile(`\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b`)

// seen is a digest of what a person was shown.
func seen(would string) string {
	sum := sha256.Sum256([]byte(timeOfDay.ReplaceAllString(would, "")))
	return hex.EncodeToString(sum[:8])
}

// act does it, if it is what the person was shown: another operator may answer now, or the same one may have gone on.
func (c *Console) act(r *http.Request) (page, error) {
	p, d, err := c.chosen(r)
	if err == nil {
		err = c.would(r, d)
	}
	if err != nil || d.Problem != nil {
		return p, err
	}
	if d.Changed = r.Form.Get("seen") != seen(d.Would); d.Changed {
		return p, nil
	}
	done, err := c.send(r, d.form, d)
	if err != nil && !errors.Is(err, context.Canceled) { // it may have been carried out: nothing repeats it
		d.Unknown, d.Problem, err = true, problemOf(err), nil
	}
	d.Done, d.Task = done.Message, done.Task
	return p, err
}

// send calls the route with a form. What the operator answers instead is on the page.
func (c *Console) send(r *http.Request, form url.Values, d *actData) (done acted, err error) {
	err = c.link.post(r.Context(), d.route+".json", form, &done)
	if refused(err) {
		d.Problem, err = problemOf(err), nil
	}
	return done, err
}
