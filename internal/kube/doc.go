// Package kube has everything generic about the API server: the connection, a client without types, kinds and their
// resources, and what reflectors of client-go need.
//
// Callers may rely on this:
//   - Connect sends no request: the first request reports a cluster that does not answer.
//   - kubectl in a hook reaches the cluster that the operator is configured for.
//   - A Resolver finds a kind by its kind, plural, singular or short name in any case, with or without group and version.
//     It caches discovery until it is asked for something that is not there, so that it finds a new CRD. A group whose
//     server is down does not hide the others.
//   - WatchOne keeps a watch of one object open, with back-off, until its context ends.
//   - A wait on a Clock ends with its context and leaves nothing behind.
//   - A Stream ends when its body ends, for whatever reason, or when it is stopped; its channel is closed then.
package kube
