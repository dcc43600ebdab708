// Package conversion lets hooks convert custom resources from one version to another when the API server asks.
//
// Callers may rely on this:
//   - Handler answers every review that it can read, and answers wrong ones of hooks with a failure that says what is
//     wrong: the API server passes it on to whoever asked.
//   - Each object takes the shortest way through the steps that hooks declare. Objects that are in the desired version
//     come back as the bytes that they were.
//   - A run ends when the API server hangs up, and before it loses patience. No more reviews run and wait at a time
//     than Options say.
//   - Registrar keeps spec.conversion of each CRD that a hook names pointed at the Handler: when the CRD comes later,
//     when somebody edits it, when the certificates change.
//
// It does not listen, and it makes no certificates. Nothing is undone when it ends: another replica, or the next
// start, goes on answering.
package conversion
