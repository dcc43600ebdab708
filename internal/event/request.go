package event

// Request is what an HTTP hook is told of a request.
type Request struct {
	// ID names the request in the log and in the answers of the operator.
	ID           string
	Method, Path string
	// PathValues are the segments of Path that stand for variables.
	PathValues map[string]string
	// Query and Headers are all in UTF-8; Headers have their canonical names, and those that are nobody's business are gone.
	Query, Headers map[string][]string
	// Body is as it arrived. IsJSON tells that it is one valid JSON text.
	Body   []byte
	IsJSON bool
	// User is who asks; nil when that is not known.
	User *User
}

// User is a user of the cluster.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}
