package console

import (
	"net/http"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// objectData is what the page of an object shows.
type objectData struct {
	debug.ObjectState
	Runs debug.Table
}

func (c *Console) object(r *http.Request) (page, error) {
	name := r.PathValue("object")
	var d objectData
	err := c.link.get(r.Context(), "/object/"+segments(name)+".json", &d.ObjectState)
	d.Runs = debug.RunTable(d.ObjectState.Runs)
	return page{Title: plain(name), content: "object", Data: &d}, err
}
