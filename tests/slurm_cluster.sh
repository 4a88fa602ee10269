#!/usr/bin/env bash
# A small Slurm cluster of plain processes on this machine, for the workflow's tests: munged,
# slurmctld, one node with two CPUs and one with a pretended GPU, all on the loopback interface.
#
#   tests/slurm_cluster.sh start FOLDER              make and start it, print the folder to put first in PATH
#   tests/slurm_cluster.sh stop FOLDER               cancel its jobs, end its processes
#   tests/slurm_cluster.sh lose-node FOLDER NODE     NODE (cpu1 or gpu1) and its jobs are killed; the
#                                                    controller finds that out, in half a minute
#   tests/slurm_cluster.sh return-node FOLDER NODE   and it comes back
#   tests/slurm_cluster.sh lose-controller FOLDER    slurmctld ends, jobs go on
#   tests/slurm_cluster.sh return-controller FOLDER  and it comes back
#
# Partition "urgent" preempts "all", the default one: its jobs are queued again.
#
# FOLDER is new, and short: sockets in it have at most about 100 characters. Needs Debian's packages
# munge, slurmctld, slurmd, slurm-client; root installs them. Exit code 77: cannot be had here, the
# last line on stderr says why.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C
unset "${!SLURM_@}"

cannot() {
    echo "$*" >&2
    exit 77
}

install_packages() {
    local missing=() pair policy=/usr/sbin/policy-rc.d made=
    for pair in munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
        command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    command -v apt-get > /dev/null || cannot "Slurm is not installed and there is no apt-get"
    [ "$(id -u)" = 0 ] || cannot "Slurm is not installed (${missing[*]}) and only root can do that"
    # The packages' own services must not start: Debian asks this file.
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod 755 "$policy"
        made=yes
    fi
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    local failed=
    { apt-get -q update && apt-get -q install -y --no-install-recommends "${missing[@]}"; } \
        > "$1/apt.log" 2>&1 || failed=yes
    [ -z "$made" ] || rm -f "$policy"
    [ -z "$failed" ] || cannot "Debian's packages could not be installed: ${missing[*]}"
    hash -r
}

free_ports() { # as many as $1, of the kernel's choice
    python3 - "$1" << 'PYTHON'
import socket
import sys

held = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
PYTHON
}

launch() { # launch NAME COMMAND...: in a session of its own, its process id kept
    local name=$1
    shift
    setsid "$@" > "$folder/$name.out" 2>&1 < /dev/null &
    echo "$!" > "$folder/$name.pid"
}

until_true() { # until_true SECONDS WHAT COMMAND...
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" > /dev/null 2>&1; do
        if [ "$SECONDS" -ge "$end" ]; then
            tail -n 5 "$folder"/*.out "$folder"/*.log >&2 || true
            stop
            cannot "a local Slurm could not be started: $what does not answer"
        fi
        sleep 0.2
    done
}

munge_answers() { munge -n -S "$folder/munge.sock" | unmunge -S "$folder/munge.sock"; }
controller_answers() { "$folder/bin/scontrol" ping | grep -q "is UP"; }
nodes_idle() { [ "$("$folder/bin/sinfo" -h -N -o %T | sort -u)" = idle ]; }

start_node() { # start_node NODE
    mkdir -p "$folder/spool/$1"
    launch "$1" slurmd -D -N "$1" -f "$folder/slurm.conf"
}

start_controller() {
    launch slurmctld slurmctld -D -f "$folder/slurm.conf"
    until_true 30 slurmctld controller_answers
}

start() {
    local ports user command
    [ "${#folder}" -le 60 ] || cannot "the folder's name is too long for sockets: $folder"
    mkdir -p "$folder"/{bin,state,spool}
    chmod 755 "$folder"
    install_packages "$folder"
    read -r -a ports <<< "$(free_ports 3)"
    user=$(id -un)

    (umask 077 && head -c 128 /dev/urandom > "$folder/munge.key")
    launch munged munged --foreground --force --key-file="$folder/munge.key" \
        --socket="$folder/munge.sock" --pid-file="$folder/munged.own" \
        --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
    until_true 20 munged munge_answers

    # proctrack/pgid and no cgroups: nothing is asked of the machine, and a training dies with its
    # job. cred_expire is also how long a requeued job waits.
    cat > "$folder/slurm.conf" << END
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock,cred_expire=15
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.own
SlurmdPidFile=$folder/%n.own
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
MinJobAge=300
KillWait=20
SlurmdTimeout=10
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1
NodeName=cpu1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=2 RealMemory=8000
NodeName=gpu1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=2 RealMemory=8000 Gres=gpu:1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes=cpu1,gpu1 Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=cpu1,gpu1 PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE State=UP
END
    echo "NodeName=gpu1 Name=gpu File=/dev/null" > "$folder/gres.conf"
    printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' > "$folder/cgroup.conf"
    # Snakemake's job step drops SLURM_CONF before it calls srun, but keeps PATH.
    for command in sbatch scancel scontrol sinfo squeue srun sacct; do
        printf '#!/bin/sh\nSLURM_CONF=%s exec %s "$@"\n' "$folder/slurm.conf" \
            "$(command -v "$command")" > "$folder/bin/$command"
        chmod 755 "$folder/bin/$command"
    done

    start_controller
    start_node cpu1
    start_node gpu1
    until_true 60 slurmd nodes_idle
    echo "$folder/bin"
}

ours() { # ours PID: does it run, and was it started for this folder?
    tr '\0' ' ' 2> /dev/null < "/proc/$1/cmdline" | grep -qF "$folder"
}

stop() {
    local name end
    if controller_answers; then
        "$folder/bin/scancel" --user="$(id -un)" || true
        end=$((SECONDS + 30))
        while [ -n "$("$folder/bin/squeue" -h)" ] && [ "$SECONDS" -lt "$end" ]; do sleep 0.5; done
    fi
    for name in cpu1 gpu1 slurmctld munged; do end "$name"; done
}

end() { # end NAME: a daemon that was launched for this folder
    local pid end
    [ -e "$folder/$1.pid" ] || return 0
    pid=$(cat "$folder/$1.pid")
    ours "$pid" || return 0
    kill -TERM "$pid"
    end=$((SECONDS + 15))
    while ours "$pid" && [ "$SECONDS" -lt "$end" ]; do sleep 0.1; done
    if ours "$pid"; then kill -KILL "$pid"; fi
    rm -f "$folder/$1.pid"
}

processes_on() { # processes_on NODE: those of its jobs, and the slurmstepd above each
    local pid parent
    for pid in $(grep -lzxF "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3); do
        grep -qzF "$folder/bin" "/proc/$pid/environ" 2> /dev/null || continue
        echo "$pid"
        parent=$(awk '{ print $4 }' "/proc/$pid/stat" 2> /dev/null) || continue
        [ "$(cat "/proc/$parent/comm" 2> /dev/null)" != slurmstepd ] || echo "$parent"
    done
}

lose_node() {
    local pid
    kill -KILL "$(cat "$folder/$1.pid")"
    for pid in $(processes_on "$1" | sort -u); do kill -KILL "$pid" 2> /dev/null || true; done
    rm -f "$folder/$1.pid"
}

# A node that registers again may be back, and even at work, before it is resumed.
serves() {
    "$folder/bin/scontrol" update nodename="$1" state=resume ||
        ! "$folder/bin/sinfo" -h -N -n "$1" -o %T | grep -q -i -e down -e unknown
}

return_node() {
    start_node "$1"
    until_true 30 "$1" serves "$1"
}

[ "$#" -ge 2 ] || {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
    exit 2
}
folder=$(realpath -m "$2")
case $1 in
    start | stop) "$1" ;;
    lose-node) lose_node "$3" ;;
    return-node) return_node "$3" ;;
    lose-controller) end slurmctld ;;
    return-controller) start_controller ;;
    *) exit 2 ;;
esac
