package console

import "net/http"

// objectData is what the page of an object shows.
type objectData struct {
	object
	Span span
}

func (c *Console) object(r *http.Request) (page, error) {
	name := r.PathValue("object")
	var d objectData
	err := c.link.get(r.Context(), "/object/"+segments(name)+".json", &d.object)
	d.Span = spanOf(d.Runs, spanLimit)
	return page{Title: plain(name), content: "object", Data: d}, err
}
