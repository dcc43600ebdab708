# Changes of objects in the cluster. They are applied after the hook has ended with status 0, in the order of
# the calls.

# kubernetes::create              [MANIFEST]   fails if the object exists
# kubernetes::create_if_not_exists [MANIFEST]  does not change an existing object
# kubernetes::create_or_update    [MANIFEST]   replaces an existing object: fields that the manifest lacks are removed
# kubernetes::apply               [MANIFEST]   server-side apply: changes only the fields of the manifest
#
# MANIFEST is YAML or JSON text, or the name of a file with it. Text has more than one line or begins with { or [.
# Without MANIFEST, or for -, it is read from stdin. It may hold several objects: YAML documents, JSON values in a row,
# or a JSON array. Empty stdin is no error.
#
#   --force               of apply: takes over fields of other field managers; otherwise they are conflicts
#   --subresource NAME    of create and apply: the request goes to it
#
#   kubernetes::create_or_update <<YAML
#   apiVersion: v1
#   kind: ConfigMap
#   metadata: {name: settings, namespace: $namespace}
#   data: {mode: fast}
#   YAML
#
#   context::objects '.object | {apiVersion, kind, metadata: (.metadata | {name, namespace, labels: {seen: "yes"}})}' |
#     kubernetes::apply
kubernetes::create() { kubernetes::_manifest Create "$@"; }
kubernetes::create_if_not_exists() { kubernetes::_manifest CreateIfNotExists "$@"; }
kubernetes::create_or_update() { kubernetes::_manifest CreateOrUpdate "$@"; }
kubernetes::apply() { kubernetes::_manifest Apply "$@"; }

# kubernetes::patch KIND NAME [OPTION…] [PATCH]
#
# Changes one object. Without PATCH, or for -, the patch is read from stdin.
#
#   --merge   PATCH is a JSON merge patch, as JSON or YAML. This is the default
#   --json    PATCH is a list of JSON patch operations, as JSON or YAML
#   --jq      PATCH is a jq filter: its input is the old object, its output the new one
#   -n, --namespace NAMESPACE
#   --api-version VERSION     of KIND, if several groups have that kind
#   --subresource NAME        such as status
#   --ignore-missing          an object that does not exist is no error
#   --ignore-hook-error       with the subresource status: change it even if the hook fails afterwards
#
#   kubernetes::patch deployment web -n shop '{"spec": {"replicas": 4}}'
#   kubernetes::patch node "$node" --jq '.metadata.labels.tier = "gold"'
kubernetes::patch() {
  local REPLY operation='' field='' patch='' from=stdin
  local namespace='' version='' subresource='' flags=''
  local -a words=()
  while (($#)); do
    case $1 in
    --*=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --merge) operation=MergePatch field=mergePatch ;;
    --json) operation=JSONPatch field=jsonPatch ;;
    --jq) operation=JQPatch field=jqFilter ;;
    --ignore-missing) flags+=',"ignoreMissingObject":true' ;;
    --ignore-hook-error) flags+=',"ignoreHookError":true' ;;
    -n | --namespace | --api-version | --subresource)
      kubernetes::_value "$@" || return 1
      case $1 in
      --api-version) version=$2 ;;
      --subresource) subresource=$2 ;;
      *) namespace=$2 ;;
      esac
      shift
      ;;
    -[!\ $'\n']*)
      # A list in YAML begins with "- " or with "-" on a line of its own.
      shell_lib::_complain "there is no option $1; there are --merge --json --jq -n --api-version --subresource --ignore-missing --ignore-hook-error"
      return 1
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
  if ((${#words[@]} < 2 || ${#words[@]} > 3)) || [[ -z ${words[0]} || -z ${words[1]} ]]; then
    shell_lib::_complain 'write kubernetes::patch KIND NAME [OPTION…] [PATCH], with KIND and NAME not empty'
    return 1
  fi
  if ((${#words[@]} == 3)) && [[ ${words[2]} != - ]]; then
    patch=${words[2]} from=argument
  else
    patch=$(cat) || return 1
  fi
  if [[ $patch != *[![:space:]]* ]]; then
    shell_lib::_complain "the patch (from $from) is empty; give it as the last argument or on stdin"
    return 1
  fi
  kubernetes::_address "${operation:-MergePatch}" "$version" "${words[0]}" "$namespace" "${words[1]}"
  local line=$REPLY
  if [[ -n $subresource ]]; then
    shell_lib::json_string "$subresource"
    line+=",\"subresource\":$REPLY"
  fi
  shell_lib::json_string "$patch" || return 1
  shell_lib::_append KUBERNETES_PATCH_PATH "$line$flags,\"${field:-mergePatch}\":$REPLY}"
}

# kubernetes::delete KIND NAME [OPTION…]
#
# Deletes one object and waits until it and its dependents are deleted. A missing object is no error.
#
#   -n, --namespace NAMESPACE
#   --api-version VERSION     of KIND, if several groups have that kind
#   --background              does not wait; dependents are deleted later
#   --orphan                  dependents stay
#
#   kubernetes::delete job "$job" -n batch --background
kubernetes::delete() {
  local REPLY operation=Delete namespace='' version=''
  local -a words=()
  while (($#)); do
    case $1 in
    --*=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --background) operation=DeleteInBackground ;;
    --orphan) operation=DeleteNonCascading ;;
    -n | --namespace | --api-version)
      kubernetes::_value "$@" || return 1
      case $1 in
      --api-version) version=$2 ;;
      *) namespace=$2 ;;
      esac
      shift
      ;;
    -*)
      shell_lib::_complain "there is no option $1; there are -n --api-version --background --orphan"
      return 1
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
  if ((${#words[@]} != 2)) || [[ -z ${words[0]} || -z ${words[1]} ]]; then
    shell_lib::_complain 'write kubernetes::delete KIND NAME [OPTION…], with KIND and NAME not empty'
    return 1
  fi
  kubernetes::_address "$operation" "$version" "${words[0]}" "$namespace" "${words[1]}"
  shell_lib::_append KUBERNETES_PATCH_PATH "$REPLY}"
}

# kubernetes::sync SET [OPTION…] [MANIFEST]
#
# Makes a set of objects complete: applies those of MANIFEST, and deletes those of earlier calls that are not in it. SET is a name that is
# unique for the hook and the owner. MANIFEST is as above; without an object in it, --allow-empty is needed.
#
#   --owner OBJECT        the object that the set belongs to, as JSON: an object of a binding context, or its apiVersion, kind, namespace, name
#   --allow-empty         deletes the whole set if MANIFEST has no objects
#   --force               adopts existing objects, and takes fields from other field managers
#   --drift MODE          restore (default) or ignore: what happens when other clients change the objects
#   --prune-kind KIND     deletes objects of a kind with data, too, such as PersistentVolumeClaim (repeatable)
#
#   kubernetes::sync web --owner "$(context::get object)" <<YAML
#   apiVersion: v1
#   kind: ConfigMap
#   metadata: {name: settings}
#   YAML
kubernetes::sync() {
  local REPLY owner='' flags='' kinds='' object all=''
  local -a words=() objects=()
  while (($#)); do
    case $1 in
    --owner=* | --prune-kind=* | --drift=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --allow-empty) flags+=',"allowEmpty":true' ;;
    --force) flags+=',"force":true' ;;
    --owner | --prune-kind | --drift)
      kubernetes::_value "$@" || return 1
      shell_lib::json_string "$2"
      case $1 in
      --owner) owner=$2 ;;
      --drift) flags+=",\"drift\":$REPLY" ;;
      *) kinds+=",$REPLY" ;;
      esac
      shift
      ;;
    --[!-]*)
      shell_lib::_complain "there is no option $1; there are --owner --allow-empty --force --drift --prune-kind"
      return 1
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
  if ((${#words[@]} < 1)) || [[ -z ${words[0]} ]]; then
    shell_lib::_complain 'write kubernetes::sync SET [OPTION…] [MANIFEST], with SET not empty'
    return 1
  fi
  if [[ -n $owner ]]; then
    local TMPDIR=${BINDING_CONTEXT_PATH:-}
    TMPDIR=${TMPDIR%/*}
    owner=$(jq -ce '{apiVersion, kind, namespace: (.namespace // .metadata.namespace), name: (.name // .metadata.name), uid: (.uid // .metadata.uid)}
      | with_entries(select(.value != null)) | select(.apiVersion and .kind and .name)' 2>/dev/null <<<"$owner") || {
      shell_lib::_complain 'the owner must be one JSON object with apiVersion, kind and a name'
      return 1
    }
    flags+=",\"owner\":$owner"
  fi
  if [[ -n $kinds ]]; then
    flags+=",\"pruneKinds\":[${kinds#,}]"
  fi
  kubernetes::_objects "${words[@]:1}" || return 1
  for object in "${objects[@]}"; do
    all+=",$object"
  done
  shell_lib::json_string "${words[0]}"
  shell_lib::_append KUBERNETES_PATCH_PATH "{\"operation\":\"Sync\",\"set\":$REPLY$flags,\"objects\":[${all#,}]}"
}

# kubernetes::condition KIND NAME TYPE STATUS REASON [MESSAGE] [OPTION…]
#
# Sets one condition in the status of an object: STATUS is True, False or Unknown, REASON a word for programs, MESSAGE a text for people. The
# conditions of other types stay. If nothing but the time would change, the object is not changed. What follows -- is no option.
#
#   -n, --namespace NAMESPACE
#   --api-version VERSION     of KIND, if several groups have that kind
#   --ignore-missing          an object that does not exist is no error
#   --ignore-hook-error       set it even if the hook fails afterwards
#
#   kubernetes::condition order "$name" -n shop Paid True Received "12 EUR"
kubernetes::condition() {
  local REPLY line namespace='' version='' uid='' flags=''
  local -a words=()
  kubernetes::_words '-n --api-version --ignore-missing --ignore-hook-error' "$@" || return 1
  if ((${#words[@]} < 5 || ${#words[@]} > 6)) || [[ -z ${words[0]} || -z ${words[1]} ]]; then
    shell_lib::_complain 'write kubernetes::condition KIND NAME TYPE STATUS REASON [MESSAGE] [OPTION…], with KIND and NAME not empty'
    return 1
  fi
  kubernetes::_address Condition "$version" "${words[0]}" "$namespace" "${words[1]}"
  line=$REPLY
  kubernetes::_texts type "${words[2]}" status "${words[3]}" reason "${words[4]}" message "${words[5]:-}" || return 1
  shell_lib::_append KUBERNETES_PATCH_PATH "$line$REPLY$flags}"
}

# kubernetes::event KIND NAME TYPE REASON ACTION [NOTE] --api-version VERSION [OPTION…]
#
# Publishes a Kubernetes Event about an object: TYPE is Normal or Warning, REASON says why, ACTION what was done, NOTE is a text for people. It never
# fails the run. Of many Events about one object most are dropped.
#
#   --api-version VERSION     of KIND
#   -n, --namespace NAMESPACE
#   --uid UID                 of the object; without it the operator reads it
#
#   kubernetes::event Order "$name" -n shop --api-version shop.example.com/v1 Normal Paid SendReceipt "12 EUR"
kubernetes::event() {
  local REPLY line namespace='' version='' uid='' flags=''
  local -a words=()
  kubernetes::_words '-n --api-version --uid' "$@" || return 1
  if ((${#words[@]} < 5 || ${#words[@]} > 6)) || [[ -z ${words[0]} || -z ${words[1]} || -z $version ]]; then
    shell_lib::_complain 'write kubernetes::event KIND NAME TYPE REASON ACTION [NOTE] --api-version VERSION [OPTION…], with KIND and NAME not empty'
    return 1
  fi
  kubernetes::_address '' "$version" "${words[0]}" "$namespace" "${words[1]}"
  line="{\"operation\":\"Event\",\"regarding\":{${REPLY#*,}"
  if [[ -n $uid ]]; then
    shell_lib::json_string "$uid"
    line+=",\"uid\":$REPLY"
  fi
  kubernetes::_texts type "${words[2]}" reason "${words[3]}" action "${words[4]}" note "${words[5]:-}" || return 1
  shell_lib::_append KUBERNETES_PATCH_PATH "$line}$REPLY}"
}

# kubernetes::_words OPTIONS WORD…: words are those that are no options; namespace, version, uid and flags are what the options say.
kubernetes::_words() {
  local known=" $1 "
  shift
  while (($#)); do
    case $1 in
    --*=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    --)
      words+=("${@:2}")
      return 0
      ;;
    --namespace)
      set -- -n "${@:2}"
      continue
      ;;
    -[!\ ]*)
      if [[ $known != *" $1 "* ]]; then
        shell_lib::_complain "there is no option $1; there are${known% }"
        return 1
      fi
      ;;&
    --ignore-missing) flags+=',"ignoreMissingObject":true' ;;
    --ignore-hook-error) flags+=',"ignoreHookError":true' ;;
    -n | --api-version | --uid)
      kubernetes::_value "$@" || return 1
      case $1 in
      --api-version) version=$2 ;;
      --uid) uid=$2 ;;
      *) namespace=$2 ;;
      esac
      shift
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
}

# kubernetes::_texts KEY TEXT…: REPLY is the members with a TEXT that is not empty, each after a comma.
kubernetes::_texts() {
  local members=''
  while (($#)); do
    if [[ -n $2 ]]; then
      shell_lib::json_string "$2" || return 1
      members+=",\"$1\":$REPLY"
    fi
    shift 2
  done
  REPLY=$members
}

# kubernetes::_value OPTION [VALUE…]
kubernetes::_value() {
  if (($# < 2)); then
    shell_lib::_complain "the option $1 needs a value"
    return 1
  fi
}

# kubernetes::_address OPERATION VERSION KIND NAMESPACE NAME: REPLY is the beginning of the operation.
kubernetes::_address() {
  local line="{\"operation\":\"$1\""
  if [[ -n $2 ]]; then
    shell_lib::json_string "$2"
    line+=",\"apiVersion\":$REPLY"
  fi
  shell_lib::json_string "$3"
  line+=",\"kind\":$REPLY"
  if [[ -n $4 ]]; then
    shell_lib::json_string "$4"
    line+=",\"namespace\":$REPLY"
  fi
  shell_lib::json_string "$5"
  REPLY="$line,\"name\":$REPLY"
}

# kubernetes::_manifest OPERATION [OPTION…] [MANIFEST]
kubernetes::_manifest() {
  local REPLY operation=$1 options='' lines='' object
  local -a words=() objects=()
  shift
  while (($#)); do
    case $operation:$1 in
    *:--subresource=*)
      set -- "${1%%=*}" "${1#*=}" "${@:2}"
      continue
      ;;
    Apply:--force) options+=',"force":true' ;;
    Apply:--subresource | Create:--subresource)
      kubernetes::_value "$@" || return 1
      shell_lib::json_string "$2"
      options+=",\"subresource\":$REPLY"
      shift
      ;;
    *:--[!-]*)
      shell_lib::_complain "there is no option $1; kubernetes::apply has --force and --subresource, kubernetes::create has --subresource"
      return 1
      ;;
    *) words+=("$1") ;;
    esac
    shift
  done
  kubernetes::_objects "${words[@]}" || return 1
  for object in "${objects[@]}"; do
    lines+="{\"operation\":\"$operation\",\"object\":$object$options}"$'\n'
  done
  if [[ -n $lines ]]; then
    shell_lib::_append KUBERNETES_PATCH_PATH "${lines%$'\n'}"
  fi
}

# kubernetes::_objects [MANIFEST] adds the objects of a manifest to objects, as JSON: documents of YAML are strings.
kubernetes::_objects() {
  local text='' object
  local -a documents=()
  if (($# > 1)); then
    shell_lib::_complain 'there is more than one argument; put quotes around a manifest'
    return 1
  fi
  if [[ ${1--} == - ]]; then
    text=$(cat) || return 1
    if [[ $text != *[![:space:]]* ]]; then
      return 0
    fi
  else
    text=$1
    if [[ $text != *[![:space:]]* ]]; then
      shell_lib::_complain 'the manifest is empty; leave it out to read stdin'
      return 1
    fi
    if [[ ${text#"${text%%[![:space:]]*}"} != [\{\[]* && $text != *$'\n'* ]]; then
      if [[ ! -f $text || ! -r $text ]]; then
        shell_lib::_complain "cannot read the file $text; give YAML or JSON text, the name of a file, or - for stdin"
        return 1
      fi
      text=$(<"$text")
    fi
  fi

  if [[ ${text#"${text%%[![:space:]]*}"} == [\{\[]* ]] && kubernetes::_json "$text"; then
    if [[ -n $REPLY ]]; then
      mapfile -t objects <<<"$REPLY"
    fi
  else
    kubernetes::_documents "$text"
    for object in "${documents[@]}"; do
      shell_lib::json_string "$object" || return 1
      objects+=("$REPLY")
    done
  fi
  for object in "${objects[@]}"; do
    if [[ $object != \{* && -z ${documents[*]-} ]]; then
      shell_lib::_complain "the manifest holds $object, which is not an object"
      return 1
    fi
  done
}

# kubernetes::_json TEXT: REPLY is one line for each JSON value in TEXT. Flow mappings of YAML resemble JSON but
# are not.
kubernetes::_json() {
  local TMPDIR=${BINDING_CONTEXT_PATH:-}
  TMPDIR=${TMPDIR%/*}
  REPLY=$(jq -c 'if type == "array" then .[] else . end' 2>/dev/null <<<"$1")
}

# kubernetes::_documents TEXT adds the YAML documents in TEXT to documents, except those with nothing but comments.
# The operator accepts only one document per object.
kubernetes::_documents() {
  local line document='' content=''
  local -a lines
  if [[ $'\n'$1 != *$'\n'---* && $'\n'$1 != *$'\n'...* ]]; then
    documents+=("$1")
    return 0
  fi
  mapfile -t lines <<<"$1"
  for line in "${lines[@]}" ---; do
    case $line in
    ---* | ...*)
      if [[ ${line:3:1} == [![:space:]] ]]; then
        document+=$line$'\n' content=yes
        continue
      fi
      if [[ -n $content ]]; then
        documents+=("${document%$'\n'}")
      fi
      document=${line:3} content=''
      if [[ $document == *[![:space:]]* && ${document#"${document%%[![:space:]]*}"} != \#* ]]; then
        document+=$'\n' content=yes
      else
        document=''
      fi
      ;;
    *)
      document+=$line$'\n'
      if [[ $line == *[![:space:]]* && ${line#"${line%%[![:space:]]*}"} != [#%]* ]]; then
        content=yes
      fi
      ;;
    esac
  done
}
