#!/bin/bash
source "$SHELL_LIB"
__config__() { echo '{configVersion: v1, schedule: [{crontab: "* * * * * *", queue: victim}]}'; }
__main__() {
	[[ -e $RESULTS/done ]] || return 0
	# A run that had begun when the intruder wrote may have read that.
	if [[ ! -e $RESULTS/seen ]]; then
		rm -f "$RESULTS/library"
		touch "$RESULTS/seen"
		return 0
	fi
	{
		echo "home $(ls -A "$HOME" | wc -l)"
		[[ ! -e $RESULTS/library ]] || echo "the library is changed"
		echo "context $(kubectl config current-context)"
	} >"$RESULTS/victim.new"
	mv "$RESULTS/victim.new" "$RESULTS/victim"
	echo "the next run has ended"
}
hook::run "$@"
