# Responses to an admission review. Without a response the operator denies the request.

# admission::allow [WARNING…]
#
# Allows the request. The client sees the warnings. A patch of admission::patch is kept.
#
#   admission::allow "the field spec.old goes away soon"
admission::allow() {
  local REPLY file=${ADMISSION_RESPONSE_PATH:-} text='{"allowed":true'
  if [[ -s $file ]]; then
    text=$(jq -c '.allowed = true | del(.message)
      | if $ARGS.positional == [] then . else .warnings += $ARGS.positional end' "$file" --args "$@") || return 1
    shell_lib::_replace ADMISSION_RESPONSE_PATH "$text"
    return
  fi
  if (($#)); then
    admission::_warnings "$@" || return 1
    text+=$REPLY
  fi
  shell_lib::_replace ADMISSION_RESPONSE_PATH "$text}"
}

# admission::deny MESSAGE [WARNING…]
#
# Denies the request. The client sees the message.
#
#   admission::deny "spec.replicas must be even"
admission::deny() {
  local REPLY text='{"allowed":false'
  if [[ -z ${1:-} ]]; then
    shell_lib::_complain 'say why: admission::deny MESSAGE [WARNING…]'
    return 1
  fi
  shell_lib::json_string "$1" || return 1
  text+=",\"message\":$REPLY"
  shift
  if (($#)); then
    admission::_warnings "$@" || return 1
    text+=$REPLY
  fi
  shell_lib::_replace ADMISSION_RESPONSE_PATH "$text}"
}

# admission::patch [PATCH]
#
# Allows the request and changes its object, for bindings under kubernetesMutating. PATCH is a JSON array of JSON patch
# operations; without it, or for -, it is read from stdin. A second patch is appended to the first. Warnings given
# before are kept. A denied request stays denied.
#
#   admission::patch '[{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]'
#   context::jq '[.review.request.object.spec.containers | keys[] | {op: "remove", path: "/spec/containers/\(.)/tty"}]' | admission::patch
admission::patch() {
  local patch text before=/dev/null
  if (($# > 1)); then
    shell_lib::_complain 'write admission::patch [PATCH]: put quotes around the patch'
    return 1
  fi
  if [[ ${1--} == - ]]; then
    patch=$(cat) || return 1
  else
    patch=$1
  fi
  shell_lib::_has_file ADMISSION_RESPONSE_PATH || return 1
  if [[ -s $ADMISSION_RESPONSE_PATH ]]; then
    before=$ADMISSION_RESPONSE_PATH
  fi
  text=$(
    jq -cn --slurpfile before "$before" '
      [inputs]
      | if length == 1 and (.[0] | type) == "array" then .[0] else
          "admission::patch: the patch has to be one JSON array\n" | halt_error(1) end
      | if all(.[]; type == "object" and has("op") and has("path")) then . else
          "admission::patch: each item of the patch has to be an object with op and path\n" | halt_error(1) end
      | . as $patch | $before[0] // {allowed: true}
      | if .allowed == false then . else
          .patch = ((.patch // "W10=" | @base64d | fromjson) + $patch | tojson | @base64) end
    ' <<<"$patch"
  ) || return 1
  shell_lib::_replace ADMISSION_RESPONSE_PATH "$text"
}

# admission::_warnings WARNING…: REPLY is the rest of a response with them.
admission::_warnings() {
  local warning list=''
  for warning in "$@"; do
    shell_lib::json_string "$warning" || return 1
    list+=",$REPLY"
  done
  REPLY=",\"warnings\":[${list:1}]"
}
