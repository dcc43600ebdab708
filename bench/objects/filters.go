package objects

// Filters are typical filters of hooks.
var Filters = []string{
	".data.number",
	"{name: .metadata.name, mode: .data.mode}",
	".data | keys",
	".metadata.labels",
	".data.payload | length",
	"[.data[] | length]",
	".metadata.uid",
	".data | to_entries | map(select(.value | length < 100))",
	"{ns: .metadata.namespace, kind, created: .metadata.creationTimestamp}",
	"del(.data, .metadata.managedFields)",
}
