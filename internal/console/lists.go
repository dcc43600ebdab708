package console

import "net/http"

func (c *Console) parked(r *http.Request) (page, error) {
	var all []parkedTask
	err := c.link.get(r.Context(), "/parked/list.json", &all)
	return page{Title: "Parked tasks", content: "parked", Data: all}, err
}

func (c *Console) sets(r *http.Request) (page, error) {
	var all []set
	err := c.link.get(r.Context(), "/sets/list.json", &all)
	return page{Title: "Sets of objects", content: "sets", Data: all, Still: true}, err
}

func (c *Console) set(r *http.Request) (page, error) {
	id := r.PathValue("id")
	var one set
	err := c.link.get(r.Context(), "/sets/"+segments(id)+".json", &one)
	return page{Title: "Set " + plain(id), content: "set", Data: one, Still: true}, err
}

func (c *Console) finalizers(r *http.Request) (page, error) {
	var all []finalizer
	err := c.link.get(r.Context(), "/finalizers/list.json", &all)
	return page{Title: "Finalizers", content: "finalizers", Data: all, Still: true}, err
}
