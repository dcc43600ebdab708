// Package effect defines what a hook can request: changes of the cluster, metrics, and answers to requests.
//
// Callers may rely on this:
//   - The values are plain: no files, no cluster, no formats.
//   - Values that came out of package wire are valid.
package effect
