# SPDX-License-Identifier: Apache-2.0
# bash completion for memtap.

# Options, or dump files and folders.
_memtap_files()
{
	local cur=${COMP_WORDS[COMP_CWORD]}
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}

# Options and a PID, then a request.
_memtap_ctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words=$1
	if [[ $prev =~ ^[0-9]+$ ]]; then
		words='start stop step mark snapshot flush status'
	elif [[ $cur != -* ]]; then
		words=$(ps -eo pid= 2>/dev/null)
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

_memtap()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} cmd=${COMP_WORDS[1]}
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'record probes check ctl recover leaks gap inefficient watch decompose compare cut msleaks --help --version' -- "$cur")
		return
	fi
	case $prev in
	-p | --pid) mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid= 2>/dev/null)" -- "$cur"); return ;;
	-n | --name) mapfile -t COMPREPLY < <(compgen -W "$(ps -eo comm= 2>/dev/null)" -- "$cur"); return ;;
	-o | --output | --cgroup) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
	--summary-json) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	--data-format) mapfile -t COMPREPLY < <(compgen -W 'csv db' -- "$cur"); return ;;
	--order) mapfile -t COMPREPLY < <(compgen -W 'time block' -- "$cur"); return ;;
	--timeline) mapfile -t COMPREPLY < <(compgen -W 'real kernel' -- "$cur"); return ;;
	--level) mapfile -t COMPREPLY < <(compgen -W '0 1 0,1' -- "$cur"); return ;;
	--split) mapfile -t COMPREPLY < <(compgen -W 'process device process,device' -- "$cur"); return ;;
	--format) mapfile -t COMPREPLY < <(compgen -W 'text csv' -- "$cur"); return ;;
	--events) mapfile -t COMPREPLY < <(compgen -W 'alloc,free,launch alloc,free launch access alloc,free,launch,access' -- "$cur"); return ;;
	--call-stack) mapfile -t COMPREPLY < <(compgen -W 'c python mixed c,python' -- "$cur"); return ;;
	--stack-bytes) mapfile -t COMPREPLY < <(compgen -W '0 4K 16K 64K' -- "$cur"); return ;;
	--debuginfod) mapfile -t COMPREPLY < <(compgen -W '10 60' -- "$cur"); return ;;
	--steps) mapfile -t COMPREPLY < <(compgen -W '1 2 1,2' -- "$cur"); return ;;
	--analysis) mapfile -t COMPREPLY < <(compgen -W 'leaks decompose inefficient none' -- "$cur"); return ;;
	--owners) mapfile -t COMPREPLY < <(compgen -W 'objects none' -- "$cur"); return ;;
	--collect-mode) mapfile -t COMPREPLY < <(compgen -W 'full custom' -- "$cur"); return ;;
	--log-level) mapfile -t COMPREPLY < <(compgen -W 'debug info warn error' -- "$cur"); return ;;
	--host-memory) mapfile -t COMPREPLY < <(compgen -W 'none ranges all' -- "$cur"); return ;;
	--device) mapfile -t COMPREPLY < <(compgen -W 'npu npu:0 cpu' -- "$cur"); return ;;
	esac
	case $cmd in
	record) mapfile -t COMPREPLY < <(compgen -W '-p --pid -n --name -a --all --cgroup --no-follow -o --output
		--data-format --order --timeline --summary-json --level --events --ops --device --host-memory --exact-ranges --call-stack --stack-bytes --lines --debuginfod -d --duration
		--ring-size --steps --owners --analysis --collect-mode --log-level --strict -q --quiet -v --verbose -h --help --' -- "$cur") ;;
	probes)
		if [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W '-p --pid --derive -J --json -A --missing --host -T --try -h --help' -- "$cur")
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		fi
		;;
	check) mapfile -t COMPREPLY < <(compgen -W '-J --json -h --help' -- "$cur") ;;
	ctl) _memtap_ctl '-J --json -h --help' ;;
	recover) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	leaks) _memtap_files '--freed --hal --marks= --start-index= --stacks --strict -h --help' ;;
	gap) _memtap_files '--strict -h --help' ;;
	watch) _memtap_files '--address= --id= --size= --owner= --op= --pid= --device= --max-blocks= --format --stacks --strict -h --help' ;;
	inefficient) _memtap_files '--idle-threshold= --min-size= --format --stacks --strict -h --help' ;;
	decompose) _memtap_files '--blocks --format --rules= --no-default-rules --print-rules --refine --strict
		-h --help' ;;
	cut) _memtap_files '--from= --to= --split -o --output --data-format --strict -h --help' ;;
	compare) _memtap_files '--level -o --output --strict -h --help' ;;
	msleaks) _memtap_files '-h --help -v -V --version --level= --events= --steps= --call-stack= --analysis= --compare
		--input= -i --input-path= --output= -o --output-path= --data-format= --format= --device= --collect-mode= --watch=
		--log-level= --verbose --debug -q --quiet --generation= --ops= --extended --exact-ranges --strict' ;;
	esac
}
complete -F _memtap memtap
