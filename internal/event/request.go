package event

// Request is an HTTP request for a hook, with the keys that it has in a context.
type Request struct {
	// ID identifies the request in the log and in responses.
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// PathValues are the values of the variables in the path.
	PathValues map[string]string `json:"pathValues"`
	// Query and Headers are valid UTF-8. Headers have canonical names; secret ones are removed.
	Query   map[string][]string `json:"query"`
	Headers map[string][]string `json:"headers"`
	// Body is unchanged. IsJSON reports whether it is one valid JSON text.
	Body   []byte `json:"-"`
	IsJSON bool   `json:"-"`
	// User is the authenticated client; nil if unknown.
	User *User `json:"user,omitempty"`
}

// User is a user of the cluster.
type User struct {
	Name   string              `json:"username"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}
