# Queries of the binding context. The "current context" is the element BINDING_CONTEXT_CURRENT_INDEX of the array in the
# file BINDING_CONTEXT_PATH; hook::run sets the index for each handler.
#
# The file is read once, without jq in a run of the operator, and otherwise by one. A query costs at most one more. Short plain values, the
# usual case, cost none: they are in __shell_lib_leaves.

# Arrays with one item for each element of the file: the key of its handler, its plain values, its JSON.
# __shell_lib_path is the file that they come from.
__shell_lib_path=''
__shell_lib_words=()
__shell_lib_leaves=()
__shell_lib_elements=()

# context::jq [OPTION…] FILTER
#
# Runs jq on the current context. All options of jq can be given.
#
#   context::jq -r '.objects[].object.metadata.name'
context::jq() {
  local REPLY
  context::_current || return 1
  # A long here-string goes through a file. It is created beside the context, where only the operator's user has access.
  local TMPDIR=${BINDING_CONTEXT_PATH%/*}
  jq "$@" <<<"${__shell_lib_elements[REPLY]}"
}

# context::global::jq [OPTION…] FILTER
#
# Runs jq on the whole array of contexts.
context::global::jq() {
  if [[ -z ${BINDING_CONTEXT_PATH:-} ]]; then
    context::_no_file
    return 1
  fi
  jq "$@" <"$BINDING_CONTEXT_PATH"
}

# context::get [--required] [PATH]
#
# Prints the value at PATH: a string without quotes, an object or array on several lines, null if there is no value.
# Without PATH, the whole context. With --required a missing key is an error.
#
# PATH is made of keys and array indexes with dots between them. A number is an index. Quote a key that has a dot in it
# or is a number.
#
#   name=$(context::get object.metadata.name)
#   port=$(context::get --required object.spec.ports.0.port)
#   app=$(context::get "object.metadata.labels.'app.kubernetes.io/name'")
context::get() {
  local required='' path='' REPLY program parent last key
  while (($#)); do
    case $1 in
    --required) required=yes ;;
    *) path=$1 ;;
    esac
    shift
  done
  context::_parse "$path" || return 1
  if context::_leaf; then
    if [[ $REPLY == \"* ]]; then
      REPLY=${REPLY:1:-1}
    fi
    printf '%s\n' "$REPLY"
    return 0
  fi
  if [[ -n $required && -n $path ]]; then
    if [[ -z $last ]]; then
      context::_not_a_path "$path"
      return 1
    fi
    shell_lib::json_string "context::get: the context of binding '${BINDING_CONTEXT_CURRENT_BINDING:-}' has no key $path"$'\n'
    program="if try ($parent | has($last)) catch false then $program else $REPLY | halt_error(1) end"
  fi
  context::jq -r "$program"
}

# context::has [PATH]
#
# Status 0 if the key or index at the end of PATH exists, even if its value is null; 1 if not; 5, as in jq,
# if its parent is not an object, an array or null.
#
#   if context::has object.spec.replicas; then …
context::has() {
  local REPLY program parent last key
  context::_parse "${1:-}" || return 1
  if [[ -z ${1:-} ]] || context::_leaf; then
    return 0
  fi
  if [[ -z $last ]]; then
    context::_not_a_path "$1"
    return 1
  fi
  context::jq -e "$parent | has($last)" >/dev/null
}

# context::is_true [PATH], context::is_false [PATH], context::is_null [PATH]
#
# Status 0 if the value at PATH is true, false or null, otherwise 1. A missing value is null.
#
#   if context::is_true object.spec.paused; then …
context::is_true() { context::_is "${1:-}" true; }
context::is_false() { context::_is "${1:-}" false; }
context::is_null() { context::_is "${1:-}" null; }

# context::objects [FILTER]
#
# Prints the items of the current context, one compact JSON a line: {"object":…, "filterResult":…}, with the keys that
# the binding has. For type Synchronization these are the items of objects; for type Event or Requeue it is the one item
# of the context, so that one handler can process both. With FILTER, prints the result of this jq filter for each
# item, strings without quotes.
#
#   context::objects .object.metadata.name | while read -r name; do …
context::objects() {
  local REPLY words
  context::_current || return 1
  IFS=$'\x1f' read -r -a words <<<"${__shell_lib_words[REPLY]}"
  case ${words[1]:-} in
  Synchronization) context::_items '.objects[]' "$@" ;;
  Event | Requeue) context::_items 'with_entries(select(.key == "object" or .key == "filterResult"))' "$@" ;;
  *)
    shell_lib::_complain "only contexts of type Synchronization, Event and Requeue have objects, this one is of type ${words[1]:-(none)}; a binding with a group has context::snapshot"
    return 1
    ;;
  esac
}

# context::snapshot NAME [FILTER]
#
# Prints the items of the snapshot of binding NAME, one compact JSON a line, or the result of FILTER for each.
#
#   context::snapshot nodes .filterResult | sort
context::snapshot() {
  local REPLY
  if [[ -z ${1:-} ]]; then
    shell_lib::_complain 'name the binding: context::snapshot NAME [FILTER]'
    return 1
  fi
  shell_lib::json_string "$1" || return 1
  local message='"context::snapshot: there is no snapshot of \($name); there is: \((.snapshots // {}) | keys | join(", "))'
  message+='. Add it to includeSnapshotsFrom of the binding\n"'
  context::_items "$REPLY as \$name | if .snapshots // {} | has(\$name) then .snapshots[\$name][] else $message | halt_error(1) end" "${@:2}"
}

# context::_items ITEMS [FILTER] prints the results of the jq filter ITEMS. The line ends allow FILTER to end in a comment.
context::_items() {
  if (($# > 1)); then
    context::jq -cr "$1 | ($2"$'\n)'
  else
    context::jq -c "$1"
  fi
}

# context::_is PATH VALUE
context::_is() {
  local REPLY program parent last key
  context::_parse "$1" || return 1
  if context::_leaf; then
    [[ $REPLY == "$2" ]] || return 1
    return 0
  fi
  context::jq -e "($program) == $2" >/dev/null || return 1
}

# context::_load reads the file: by the heads that the operator has written beside it, or else by jq.
context::_load() {
  if [[ -z ${BINDING_CONTEXT_PATH:-} || ! -r $BINDING_CONTEXT_PATH ]]; then
    context::_no_file
    return 1
  fi
  # With a locale that is not installed, bash warns each time that it is restored.
  context::_load_heads 2>/dev/null || context::_load_with_jq || return 1
  __shell_lib_path=$BINDING_CONTEXT_PATH
}

# context::_load_heads uses builtins only. The heads have three lines for each element: its length in bytes, and the first two of
# context::_load_with_jq. They are not those of a file that was changed afterwards, or has other lengths.
context::_load_heads() {
  local LC_ALL=C REPLY heads=${BINDING_CONTEXT_PATH%.json}.heads before='['
  local -a lines=()
  local -i at
  [[ -f $heads && ! $BINDING_CONTEXT_PATH -nt $heads ]] || return 1
  mapfile -t lines <"$heads" || return 1
  [[ ${lines[0]:-} == 'heads 1' && ${lines[${#lines[@]} - 1]} == end ]] || return 1
  __shell_lib_words=() __shell_lib_leaves=() __shell_lib_elements=()
  {
    for ((at = 1; at < ${#lines[@]} - 1; at += 3)); do
      read -r -N 1 && [[ $REPLY == "$before" ]] && read -r -N "${lines[at]}" && [[ $REPLY == {*} ]] || return 1
      __shell_lib_words+=("${lines[at + 1]}")
      __shell_lib_leaves+=("${lines[at + 2]}")
      __shell_lib_elements+=("$REPLY")
      before=,
    done
    read -r -N 3 || true
    [[ $before == , && $REPLY == ']'?($'\n') ]] || return 1
  } <"$BINDING_CONTEXT_PATH"
}

# context::_load_with_jq needs no heads. Each element becomes three lines. In the first, a line end inside of a name is
# \x1e. The second repeats \x1f PATH \x1e VALUE, where PATH is "," and JSON for each component; in JSON
# \x1e and \x1f never stand for themselves.
context::_load_with_jq() {
  local text TMPDIR=${BINDING_CONTEXT_PATH%/*}
  local -a lines=()
  local -i at
  text=$(
    jq -r '
      def words:
        [.binding // "unknown", .type, .watchEvent, .groupName, .fromVersion, .toVersion]
        | map(. // "" | tostring | split("\n") | join("\u001e")) | join("\u001f");
      def leaves($path):
        if type == "object" or type == "array" then
          . as $value | keys[] as $key | $value[$key] | leaves($path + "," + ($key | tojson))
        elif type == "string" and length > 255 then empty
        else "\u001f" + $path + "\u001e" + tojson end;
      def noted: [limit(200; del(.objects, .snapshots, .object.metadata.managedFields?) | leaves(""))] | join("");
      .[] | words, noted, tojson
    ' <"$BINDING_CONTEXT_PATH"
  ) || {
    shell_lib::_complain "$BINDING_CONTEXT_PATH does not hold an array of binding contexts; jq says why above"
    return 1
  }
  __shell_lib_words=() __shell_lib_leaves=() __shell_lib_elements=()
  if [[ -n $text ]]; then
    mapfile -t lines <<<"$text"
  fi
  for ((at = 0; at < ${#lines[@]}; at += 3)); do
    __shell_lib_words+=("${lines[at]}")
    __shell_lib_leaves+=("${lines[at + 1]}")
    __shell_lib_elements+=("${lines[at + 2]}")
  done
}

# context::_current: REPLY is the index of the current context, which is loaded. In a script that a handler
# started this reads the file.
context::_current() {
  if [[ -z ${BINDING_CONTEXT_CURRENT_INDEX:-} ]]; then
    shell_lib::_complain "there is no current context; call it in a handler, or set BINDING_CONTEXT_CURRENT_INDEX"
    return 1
  fi
  if [[ -z $__shell_lib_path || $__shell_lib_path != "${BINDING_CONTEXT_PATH:-}" ]]; then
    context::_load || return 1
  fi
  REPLY=$BINDING_CONTEXT_CURRENT_INDEX
  if [[ -z ${__shell_lib_elements[REPLY]+yes} ]]; then
    shell_lib::_complain "BINDING_CONTEXT_CURRENT_INDEX is $REPLY, but there are ${#__shell_lib_elements[@]} contexts, counted from 0"
    return 1
  fi
}

# context::_leaf: REPLY is the JSON value at key, if it was stored. A value that was not stored may exist.
context::_leaf() {
  local leaves mark before
  [[ -n $key ]] || return 1
  context::_current 2>/dev/null || return 1
  leaves=${__shell_lib_leaves[REPLY]}
  mark=$'\x1f'$key$'\x1e'
  before=${leaves%%"$mark"*}
  ((${#before} < ${#leaves})) || return 1
  REPLY=${leaves:${#before}+${#mark}}
  REPLY=${REPLY%%$'\x1f'*}
  # Escapes in a string are left to jq.
  [[ $REPLY != *\\* ]]
}

# context::_parse PATH sets variables of the caller: program is PATH as a jq filter; parent is the same without the last
# component, and last is that component; key is PATH as __shell_lib_leaves has it. Text that is jq rather than a path,
# such as list[0], is passed to jq unchanged; then last and key are empty.
context::_parse() {
  local rest=${1#.} raw bare string text chunk quote jq='' REPLY
  program='' parent=. last='' key=''
  while [[ -n $rest ]]; do
    # One component: raw is what jq would read. It is a key if it is all bare, or one string and nothing else.
    raw='' bare=yes string=''
    while [[ -n $rest && $rest != .* ]]; do
      case $rest in
      \'* | \"*)
        text='' chunk=''
        quote=${rest:0:1}
        rest=${rest:1}
        while :; do
          if [[ $rest != *"$quote"* ]]; then
            shell_lib::_complain "in the path $1 a $quote is missing"
            return 1
          fi
          chunk=${rest%%"$quote"*}
          text+=$chunk
          rest=${rest:${#chunk}+1}
          if [[ $quote == "'" || $chunk != *\\ ]]; then
            break
          fi
          text+=\"
        done
        REPLY="\"$text\""
        if [[ $quote == "'" ]]; then
          shell_lib::json_string "$text"
        fi
        if [[ -z $raw && (-z $rest || $rest == .*) ]]; then
          string=$REPLY
        fi
        raw+=$REPLY
        bare=''
        ;;
      *)
        chunk=${rest%%[.\'\"]*}
        raw+=$chunk
        rest=${rest:${#chunk}}
        ;;
      esac
    done
    if [[ -z $raw || $rest == . ]]; then
      shell_lib::_complain "the path $1 has an empty component; write it like a.b.c"
      return 1
    fi
    rest=${rest#.}

    parent=${program:-.}
    if [[ -n $string ]]; then
      last=$string
    elif [[ -n $bare && $raw != *[!0-9]* ]]; then
      last=$((10#$raw))
    elif [[ -n $bare && $raw != *[][\(\)\|?]* ]]; then
      shell_lib::json_string "$raw"
      last=$REPLY
    else
      jq=yes last=''
      if [[ $raw == [!\[]*\[* && ${raw%%\[*} != *[\(\)\|?\"]* ]]; then
        shell_lib::json_string "${raw%%\[*}"
        raw="[$REPLY][${raw#*\[}"
      fi
      if [[ -n $program && $raw == \[* ]]; then
        program+=$raw
      else
        program+=.$raw
      fi
      continue
    fi
    if [[ -n $program ]]; then
      program+="[$last]"
    else
      program=".[$last]"
    fi
    key+=,$last
  done
  if [[ -n $jq ]]; then
    last='' key=''
  fi
  program=${program:-.}
}

context::_not_a_path() {
  shell_lib::_complain "whether there is a value at $1 can only be said of keys and indexes with dots between them, like list.0.name; use context::jq -e"
}

context::_no_file() {
  shell_lib::_complain "BINDING_CONTEXT_PATH has to name a file with binding contexts; the operator sets it for every run. To try the hook by hand, write such a file"
}
