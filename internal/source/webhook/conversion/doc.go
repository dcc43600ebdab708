// Package conversion lets hooks convert custom resources between the versions of a CRD.
//
// Callers may rely on this:
//   - Handler answers every review that it can parse. Invalid answers of hooks become a failure with the reason, which the
//     API server passes on to its user.
//   - Each object takes the shortest path through the declared steps. Objects in the desired version are returned as the
//     same bytes.
//   - A run ends when its client disconnects, and before the API server's timeout. Options limit the reviews in flight and
//     waiting.
//   - Registrar points spec.conversion of each CRD that a hook names to the Handler: also if the CRD is created later, is
//     edited, or the certificates change.
//
// The package neither listens nor makes certificates. It undoes nothing at its end: other replicas, or the next start, serve
// the same CRDs.
package conversion
