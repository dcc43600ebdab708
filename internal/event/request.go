package event

// Request is an HTTP request for a hook.
type Request struct {
	// ID identifies the request in the log and in responses.
	ID           string
	Method, Path string
	// PathValues are the values of the variables in the path.
	PathValues map[string]string
	// Query and Headers are valid UTF-8. Headers have canonical names; secret ones are removed.
	Query, Headers map[string][]string
	// Body is unchanged. IsJSON reports whether it is one valid JSON text.
	Body   []byte
	IsJSON bool
	// User is the authenticated client; nil if unknown.
	User *User
}

// User is a user of the cluster.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}
