# Responses to a conversion review, for bindings under kubernetesCustomResourceConversion.

# conversion::objects
#
# Prints the objects to convert, one compact JSON a line.
conversion::objects() { context::jq -c '.review.request.objects[]'; }

# conversion::convert FILTER [OPTION…]
#
# Responds with the results of the jq filter for each object. OPTIONs are options of jq. $context is the whole context.
#
#   __on_conversion::gadgets::v1::v2() {
#     conversion::convert '.apiVersion = "toys.example.org/v2" | .spec.size = (.spec.height | tonumber) | del(.spec.height)'
#   }
conversion::convert() {
  local text
  if [[ -z ${1:-} ]]; then
    shell_lib::_complain 'give a jq filter: conversion::convert FILTER [OPTION…]'
    return 1
  fi
  # The line end allows the filter to end in a comment.
  text=$(context::jq -c "${@:2}" '. as $context | {convertedObjects: [.review.request.objects[] | ('"$1"$'\n)]}') || return 1
  shell_lib::_replace CONVERSION_RESPONSE_PATH "$text"
}

# conversion::respond
#
# Responds with the objects on stdin: JSON values in a row or one JSON array, in the order in which conversion::objects
# prints them.
#
#   conversion::objects | my-converter | conversion::respond
conversion::respond() {
  local REPLY objects text TMPDIR=${BINDING_CONTEXT_PATH:-}
  TMPDIR=${TMPDIR%/*}
  objects=$(cat) || return 1
  context::_current || return 1
  # The context precedes the response: one jq reads both.
  text=$(
    jq -cn '
      (input | .review.request.objects | length) as $want
      | [inputs] | if length == 1 and (.[0] | type) == "array" then .[0] else . end
      | if all(.[]; type == "object") then . else
          "conversion::respond: stdin has to hold JSON objects\n" | halt_error(1) end
      | if length == $want then {convertedObjects: .} else
          "conversion::respond: there are \($want) objects to convert, but stdin has \(length)\n" | halt_error(1) end
    ' <<<"${__shell_lib_elements[REPLY]}"$'\n'"$objects"
  ) || return 1
  shell_lib::_replace CONVERSION_RESPONSE_PATH "$text"
}

# conversion::fail MESSAGE
#
# Reports that the objects cannot be converted. The client sees the message.
conversion::fail() {
  local REPLY
  if [[ -z ${1:-} ]]; then
    shell_lib::_complain 'say why: conversion::fail MESSAGE'
    return 1
  fi
  shell_lib::json_string "$1" || return 1
  shell_lib::_replace CONVERSION_RESPONSE_PATH "{\"failedMessage\":$REPLY}"
}
