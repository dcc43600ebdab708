package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// openAPIPath is where the document is served. No binding has this path.
const openAPIPath = "/openapi.json"

// describe serves the document.
func (c *call) describe() error {
	const allowed = "GET, HEAD, OPTIONS"
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
		c.w.Header().Set("Content-Type", "application/json")
		c.send(http.StatusOK, c.openAPI)
		return nil
	case http.MethodOptions:
		c.w.Header().Set("Allow", allowed)
		c.send(http.StatusNoContent, nil)
		return nil
	}
	c.w.Header().Set("Allow", allowed)
	return refuse(http.StatusMethodNotAllowed, "this path answers %s", allowed)
}

type object = map[string]any

// document describes the routes by OpenAPI 3.0.
func document(routes table, secured bool) ([]byte, error) {
	paths, known, ids := object{}, []*route{}, map[string]bool{}
	for _, r := range routes {
		// One path stands in the document once, whatever its variables are called in which binding.
		first := r
		for _, k := range known {
			if bySegments(k.binding.Segments, r.binding.Segments) == 0 {
				first = k
			}
		}
		item, ok := paths[first.binding.Path].(object)
		if !ok {
			item = object{}
			paths[first.binding.Path] = item
			known = append(known, r)
			if parameters := parametersOf(r.binding.Segments); len(parameters) > 0 {
				item["parameters"] = parameters
			}
		}
		item[strings.ToLower(r.binding.Method)] = operation(r, ids)
	}
	doc := object{
		"openapi": "3.0.3",
		"info":    object{"title": "HTTP hooks", "version": "1", "description": "Made by shell-operator of the http bindings of its hooks."},
		"paths":   paths,
	}
	components := object{
		"responses": object{"error": object{
			"description": "An answer of the operator itself",
			"content": object{"application/json": object{"schema": object{
				"type": "object", "required": []string{"error", "id"},
				"properties": object{"error": object{"type": "string"}, "id": object{"type": "string", "description": "names the request in the operator's log"}},
			}}},
		}},
	}
	if secured {
		components["securitySchemes"] = object{"token": object{"type": "http", "scheme": "bearer", "description": "a token of the cluster"}}
		doc["security"] = []object{{"token": []string{}}}
	}
	doc["components"] = components
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

func parametersOf(segments []hook.Segment) (parameters []object) {
	for _, s := range segments {
		if s.Variable {
			parameters = append(parameters, object{"name": s.Text, "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	return parameters
}

func operation(r *route, ids map[string]bool) object {
	id := strings.ToLower(r.binding.Method)
	for _, s := range r.binding.Segments {
		id += "_" + strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
				return c
			}
			return '_'
		}, s.Text)
	}
	for n := 2; ids[id]; n++ {
		id = fmt.Sprintf("%s_%d", strings.TrimSuffix(id, fmt.Sprintf("_%d", n-1)), n)
	}
	ids[id] = true
	responses := object{"default": object{"description": "What the hook answers"}}
	for _, status := range []string{"400", "401", "403", "413", "500", "503", "504"} {
		responses[status] = object{"$ref": "#/components/responses/error"}
	}
	op := object{"operationId": id, "summary": r.binding.Name, "tags": []string{r.hook.Name}, "responses": responses}
	switch r.binding.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		op["requestBody"] = object{"content": object{"*/*": object{}}}
	}
	return op
}
