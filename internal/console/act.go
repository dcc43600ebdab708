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
	"strings"
)

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
	route := c.actionRoute(name)
	if route == nil {
		return page{Title: "Not found"}, nil, errors.New("there is no such action")
	}
	p := page{Title: route.Command.Short, content: "act", Still: true}
	if err := r.ParseForm(); err != nil {
		return p, nil, err
	}
	asked, back := maps.Clone(r.Form), "/"+strings.Split(name, "/")[0]
	path, fields := route.Path, url.Values{}
	if of := r.Form.Get("name"); strings.Contains(path, "*") {
		asked.Set("*", of)
		fields.Set("name", of)
		path, back = strings.Replace(path, "*", segments(of), 1), back+"s/"+segments(of) // the page of the hook or queue
	}
	words, form := route.Command.Line(asked)
	form.Del("*")
	for field := range form {
		fields[field] = form[field]
	}
	d := &actData{Verb: label(name), Command: c.command(words...), Action: c.access.base + "/act/" + name + "?" + fields.Encode(),
		Back: c.access.base + back, route: path, form: form}
	p.Data = d
	return p, d, nil
}

// label is the verb of an action.
func label(action string) string {
	_, verb, _ := strings.Cut(action, "/")
	return strings.ToUpper(verb[:1]) + verb[1:]
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

// timeOfDay finds the times of a dry run, which are the times of the request.
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
