package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// listData is what the page of a list shows.
type listData struct {
	debug.Table
	// All are actions on all objects. Still: the page is not read again by itself.
	All   []debug.Action
	Still bool
}

// list is the page of a route that lists.
func (c *Console) list(title, route string, still bool, all ...string) func(*http.Request) (page, error) {
	return func(r *http.Request) (page, error) {
		d := listData{Still: still}
		for _, name := range all {
			d.All = append(d.All, debug.Action{Name: name, Form: url.Values{"all": {"true"}}})
		}
		var answer json.RawMessage
		err := c.link.get(r.Context(), route+".json", &answer)
		if err == nil {
			d.Table, err = c.route(http.MethodGet, route).Command.List.Table(answer)
		}
		return page{Title: title, content: "list", Data: d, Still: still}, err
	}
}

// route is one of the operator, which has a command; nil if there is none.
func (c *Console) route(method, path string) *debug.Route {
	for i := range c.o.Routes {
		if r := &c.o.Routes[i]; r.Method == method && r.Path == path && r.Command != nil {
			return r
		}
	}
	return nil
}

// actionRoute returns the route of an action: "queue/retry" is /queue/*/retry.
func (c *Console) actionRoute(name string) *debug.Route {
	of, verb, _ := strings.Cut(name, "/")
	if r := c.route(http.MethodPost, "/"+name); r != nil {
		return r
	}
	return c.route(http.MethodPost, fmt.Sprintf("/%s/*/%s", of, verb))
}

func (c *Console) set(r *http.Request) (page, error) {
	id := r.PathValue("id")
	var one debug.ShownSet
	err := c.link.get(r.Context(), "/sets/"+segments(id)+".json", &one)
	return page{Title: "Set " + plain(id), content: "set", Data: &one, Still: true}, err
}
