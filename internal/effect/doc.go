// Package effect holds what a hook may ask for: changes of the cluster, metrics, and answers to reviews.
//
// Callers may rely on this:
//   - The values are plain and know nothing else: no files, no cluster, no formats.
//   - Values that came out of package wire are valid.
package effect
