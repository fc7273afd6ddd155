# SPDX-License-Identifier: Apache-2.0
"""The ground truth of sim-train, and the rows that a recorder owes for it.

Nothing here knows memtap's code: only what the functions do (spec) and what the truth says.
"""
import glob
import json
import re

NS_MS = 1_000_000

# When in a call is the time of its row taken?
ENTRY, RETURN, INSIDE, AROUND = 'entry', 'return', 'inside', 'around'

ENCLOSING = {'aclrtMalloc', 'aclrtMallocAlign32', 'aclrtMallocCached', 'aclrtMallocWithCfg',
             'aclrtMallocForTaskScheduler', 'aclrtMemAllocManaged', 'aclrtMallocHost',
             'aclrtMallocHostWithCfg', 'aclrtMallocPhysical'}
HAL = ('halMemAlloc', 'halMemFree', 'halMemCreate', 'halMemRelease')
DRV_OUT_OF_MEMORY = 6
LAUNCH = re.compile(r'rts?.*Launch.*')
STUBS = {'rtLaunch', 'rtKernelLaunch', 'rtKernelLaunchWithFlag', 'rtKernelLaunchWithFlagV2',
         'rtVectorCoreKernelLaunch'}
NAME_MAX, MESSAGE_MAX = 127, 255  # bytes that fit into a record
KEYWORD_MESSAGE = {'py_mstx_mark'}  # sim_train.py gives it as message=: the dict is not read


def read(base):
    """Records of all processes of a job, by time; truth_dropped is an error."""
    records = []
    for path in glob.glob(glob.escape(base) + '.*'):
        with open(path) as f:
            for line in f:
                records.append(json.loads(line))
    if any(r['fn'] == 'truth_dropped' for r in records):
        raise ValueError('the truth is not complete')
    records.sort(key=lambda r: (r['t0'], -r['t1']))
    return records


def text(record, limit):
    """Name of a record as a csv or db would show it: bytes in UTF-8, cut at `limit` bytes."""
    raw = record.get('name')
    if raw is None:
        return None
    raw = raw.encode('latin-1')
    if len(raw) > limit:
        return None  # judged elsewhere: cut names are marked
    return raw.decode('utf-8', 'replace')


class Expected:
    """One row that is due. `fields`: exact values; `check`: functions of the row giving a problem."""

    __slots__ = ('pid', 'tid', 'event', 'type', 'id', 't0', 't1', 'when', 'fields', 'attrs',
                 'check', 'record', 'lo', 'hi', 'device')

    def __init__(self, r, event, type_, id_, when, fields=None, attrs=None, check=None):
        self.pid, self.tid, self.t0, self.t1 = r['pid'], r['tid'], r['t0'], r['t1']
        self.event, self.type, self.id, self.when = event, type_, id_, when
        self.fields, self.attrs, self.check = fields or {}, attrs or {}, check
        self.record = r
        self.device = self.fields.get('device')

    def key(self):
        return self.pid, self.tid, self.event, self.type, self.id

    def __repr__(self):
        return (f'{self.record["fn"]} pid {self.pid} tid {self.tid} {self.event} {self.type} {self.id} '
                f'[{self.t0}, {self.t1}]')


class Rules:
    """What depends on the run: layout of torch_npu, visible devices, what the recorder could learn."""

    def __init__(self, layout='c', visible=None, from_start=True, attached=0, levels=(0, 1), shared=False):
        self.layout, self.from_start, self.attached = layout, from_start, attached
        self.shared = shared  # several threads allocate on one device
        self.logical = {p: l for l, p in enumerate(visible)} if visible else None

    def device_of(self, phys):
        return str(self.logical.get(phys, 'N/A') if self.logical else phys)


class Devices:
    """Current device of a thread by its aclrtSetDevice calls."""

    def __init__(self, records):
        self.sets = {}
        for r in records:
            if r['fn'] in ('aclrtSetDevice', 'rtSetDevice') and r['ret'] == 0:
                self.sets.setdefault((r['pid'], r['tid']), []).append((r['t1'], r['device']))

    def at(self, r):
        """(device, time of the set) or None."""
        last = None
        for t, dev in self.sets.get((r['pid'], r['tid']), ()):
            if t <= r['t0']:
                last = dev, t
        return last


def thread_device(rules, devices, r):
    """Check of the column of an event that names no device."""
    known = devices.at(r)

    def check(row):
        if known is None:
            return None if row['device'] == 'N/A' else f'device {row["device"]} of a thread that set none'
        if row['device'] == str(known[0]):
            return None
        if row['device'] == 'N/A' and known[1] < rules.attached:
            return None  # set before the attach: unknown is allowed, wrong is not
        return f'device {row["device"]}, truth {known[0]}'
    return check


def hal(rules, r, out, live):
    if r['ret'] != 0:
        return
    handle = r['fn'] in ('halMemCreate', 'halMemRelease')
    if r['fn'] == 'halMemAlloc':
        kind = r['args'][2] >> 10 & 15
        dev = 'host' if kind == 2 else rules.device_of(r['device'])
        out.append(Expected(r, 'MALLOC', 'HAL', r['out'], RETURN, {'size': r['size'], 'device': dev},
                            {'alloc_type': 'alloc'}))
    elif r['fn'] == 'halMemCreate':
        dev = 'host' if r['args'][3] == 0 else rules.device_of(r['args'][4])
        out.append(Expected(r, 'MALLOC', 'HAL', r['out'], RETURN, {'size': r['size'], 'device': dev},
                            {'alloc_type': 'create'}))
    else:
        born = live.pop((r['pid'], handle, r['out']), None)
        e = Expected(r, 'FREE', 'HAL', r['out'], ENTRY)
        if born:
            e.device = born.fields['device']
            e.check = freed(rules, born)
        out.append(e)
        return
    live[r['pid'], handle, r['out']] = out[-1]


def freed(rules, born):
    """A FREE has what its MALLOC had, if that was seen; else the driver's free names nothing."""
    def check(row):
        if row['attr'].get('preattach') == 'true':
            if born.t0 >= rules.attached:
                return f'preattach, but allocated in the window: {born}'
            return None if (row['device'], row['size']) == ('N/A', None) else \
                f'device {row["device"]} size {row["size"]} before the attach'
        if (row['device'], row['size']) != (born.fields['device'], born.fields['size']):
            return f'device {row["device"]} size {row["size"]}, MALLOC {born.fields}'
        return None
    return check


def pta(rules, r, out):
    fn = r['fn']
    fields = {'size': r['size'], 'device': str(r['device'])}
    event = 'MALLOC' if fn.endswith('malloc') else 'FREE'
    attrs = {}
    if rules.layout == 'opaque':
        return
    if rules.layout == 'none':
        if fn in ('pta_malloc', 'pta_free'):
            out.append(Expected(r, event, 'PTA', r['out'], RETURN if event == 'MALLOC' else ENTRY, fields,
                                check=function_totals(rules, r)))
        return
    if fn in ('pta_malloc', 'pta_free'):
        type_ = 'PTA'
        fields.update(total=r['reserved'], used=r['alloc'])
        if rules.layout != 'c10':
            attrs['active'] = str(r['active'])
            if r['stream']:
                attrs['stream'] = hex(r['stream'])
    elif fn in ('ws_use_malloc', 'ws_use_free'):
        type_ = 'PTA_WORKSPACE'
        fields.update(total=r['reserved'], used=r['alloc'])
    elif fn in ('ws_segment_malloc', 'ws_segment_free') and rules.layout == 'b':
        type_ = 'PTA_WORKSPACE'
        fields.update(total=r['alloc'], used=r['alloc'])
    else:
        return
    out.append(Expected(r, event, type_, r['out'], INSIDE, fields, attrs))


def function_totals(rules, r):
    """Read behind the allocator's lock: of this moment only if nobody else uses the device."""
    def check(row):
        if row['attr'].keys() & {'active', 'stream'}:
            return 'attributes that the functions do not tell'
        if rules.shared:
            ok = row['total'] is None or 0 <= row['used'] <= row['total']
        else:
            ok = (row['total'], row['used']) == (r['reserved'], r['alloc'])
        return None if ok else f'total {row["total"]} used {row["used"]}, truth {r["reserved"]} {r["alloc"]}'
    return check


def launch(rules, devices, r, out, stream_ids, stubs):
    name = text(r, NAME_MAX)
    on_device = thread_device(rules, devices, r)

    def check(row):
        stub = r['fn'] in STUBS and stubs.get((r['pid'], r['args'][0]), 0) < rules.attached
        if name is None:
            if not row['name'].startswith('kernel:'):
                return f'name {row["name"]!r} where there is none'
        elif row['name'] != name and not (stub and row['name'] == f'stub:{r["args"][0]:#x}'):
            return f'name {row["name"]!r}, truth {name!r}'
        got = row['attr'].get('streamId')
        learnt = stream_ids.get((r['pid'], r['stream']))
        if r['fn'] == 'rtLaunch':
            pass  # its stream is that of a call before
        elif row['attr'].get('stream') != hex(r['stream']):
            return f'stream {row["attr"].get("stream")}, truth {r["stream"]:#x}'
        elif learnt and learnt[0] >= rules.attached and learnt[1] < r['t0'] and got != str(r['stream_id']):
            return f'streamId {got}, truth {r["stream_id"]}'
        if got not in ('N/A', str(r['stream_id'])):
            return f'streamId {got}, truth {r["stream_id"]}'
        if row['attr'].get('taskId') != 'N/A':
            return f'taskId {row["attr"].get("taskId")}'
        return on_device(row)
    out.append(Expected(r, 'KERNEL_LAUNCH', 'KERNEL_LAUNCH', None, ENTRY, check=check))


def marks(rules, devices, r, out):
    fn = r['fn']
    kind = ('Mark' if 'ark' in fn else
            'Range_start' if 'start' in fn.lower() or 'push' in fn else
            'Range_end' if 'end' in fn.lower() or 'pop' in fn else None)
    if kind is None:
        return
    on_device = thread_device(rules, devices, r)
    if kind == 'Range_end':
        def check(row):
            if not re.fullmatch(r'Range end from id \d+', row['name']):
                return f'name {row["name"]!r}'
            return on_device(row)
        out.append(Expected(r, 'MSTX', kind, None, ENTRY, check=check))
        return
    name = text(r, MESSAGE_MAX)

    def check_name(row):
        note = row['attr'].get('note')
        if name is None:
            whole = r['name'].encode('latin-1').decode('utf-8', 'replace')
            if note != 'message cut' or not row['name'] or not whole.startswith(row['name'].rstrip('\ufffd')):
                return f'name {row["name"]!r} note {note} of a message of {len(r["name"])} bytes'
        elif note == 'message unreadable' and fn in KEYWORD_MESSAGE:
            pass
        elif row['name'] != ('' if name[:1] in ('=', '+', '-', '@') and name else name) or note:
            return f'name {row["name"]!r} note {note}, truth {name!r}'
        return on_device(row)
    out.append(Expected(r, 'MSTX', kind, None, ENTRY, check=check_name))


def atb(rules, devices, r, out):
    """An operation of sim-train: its workspace, its runner, its one kernel."""
    on_device = thread_device(rules, devices, r)
    path = rf'.*_{r["pid"]}/\d+/\d+_{re.escape(r["name"])}'

    def named(name, pattern):
        def check(row):
            if row['name'] != name or not re.fullmatch(pattern, row['attr']['path']):
                return f'name {row["name"]!r} path {row["attr"]["path"]}'
            return on_device(row)
        return check
    sizes = {'size': r['size']}
    out.append(Expected(r, 'MALLOC', 'ATB', r['out'], ENTRY, sizes, check=on_device))
    for word in ('START', 'END'):
        out.append(Expected(r, 'OP_LAUNCH', 'ATB_' + word, None, INSIDE, attrs={
            'workspace_ptr': hex(r['out']), 'workspace_size': str(r['size'])}, check=named(r['name'], path)))
        out.append(Expected(r, 'KERNEL_LAUNCH', 'KERNEL_' + word, None, INSIDE, check=named(
            '0_LayernormF16Kernel', path + '/0_LayernormF16Kernel/' + {'START': 'before', 'END': 'after'}[word])))
    out.append(Expected(r, 'FREE', 'ATB', r['out'], RETURN, sizes, check=on_device))


def is_mark(fn):
    return (fn.startswith('mstx') and any(w in fn for w in ('Mark', 'Range'))) or \
        fn.startswith(('py_mstx_', 'npu_mstx_'))


def outermost(records, wanted):
    """Records of wanted functions that no other of them encloses on the thread."""
    end, result = {}, []
    for r in records:
        if not wanted(r):
            continue
        thread = r['pid'], r['tid']
        if r['t1'] <= end.get(thread, 0):
            continue
        end[thread] = r['t1']
        result.append(r)
    return result


def ooms(rules, records, out):
    """One row when an enclosing call fails after refusals; or the driver's own, outside of any."""
    open_, refused = {}, {}
    for r in records:
        thread = r['pid'], r['tid']
        o = open_.get(thread)
        if o and r['t0'] > o['t1']:
            open_.pop(thread)
            o = None
        if r['fn'] in ENCLOSING and not o:
            open_[thread] = r
            refused[id(r)] = []
        elif r['fn'] in ('halMemAlloc', 'halMemCreate') and r['ret'] == DRV_OUT_OF_MEMORY:
            refused.setdefault(id(o) if o else id(r), []).append(r)
            if not o:
                refused[id(r)] = [r]
    by_id = {id(r): r for r in records}
    for key, list_ in refused.items():
        r = by_id[key]
        if not list_ or (r['fn'] in ENCLOSING and r['ret'] == 0):
            continue
        last = list_[-1]
        attrs = {'func': last['fn'], 'req_size': str(last['size'])}
        if last['fn'] == 'halMemAlloc':
            attrs['flag'] = str(last['args'][2])
        out.append(Expected(r, 'OOM_DETAIL', 'OOM_TRIGGER', None, RETURN, attrs=attrs))


def expected(records, rules):
    """All rows due for these records, whether inside the window or not."""
    out = []
    devices = Devices(records)
    stream_ids, stubs, live = {}, {}, {}
    for r in records:
        if r['fn'] == 'aclrtStreamGetId' and r['ret'] == 0:
            stream_ids.setdefault((r['pid'], r['stream']), (r['t0'], r['t1']))
        elif r['fn'] in ('rtFunctionRegister', 'rtRegisterFuncSymbol') and r['ret'] == 0:
            stubs.setdefault((r['pid'], r['out']), r['t0'])
    # An address is given out again before the call that took it back returns.
    for r in sorted((r for r in records if r['fn'] in HAL),
                    key=lambda r: r['t1'] if r['fn'] in ('halMemAlloc', 'halMemCreate') else r['t0']):
        hal(rules, r, out, live)
    for r in records:
        fn = r['fn']
        if fn.startswith(('pta_', 'ws_')):
            pta(rules, r, out)
        elif fn in ('aclrtHostRegister', 'aclrtHostRegisterV2') and r['ret'] == 0:
            out.append(Expected(r, 'MALLOC', 'HOST_PINNED', r['out'], RETURN,
                                {'size': r['size'], 'device': 'cpu'}, {'pinned': 'true'}))
        elif fn == 'aclrtHostUnregister' and r['ret'] == 0:
            out.append(Expected(r, 'FREE', 'HOST_PINNED', r['out'], ENTRY, {'device': 'cpu'},
                                {'pinned': 'true'}))
        elif fn in ('aclInit', 'aclFinalize') and r['ret'] == 0:
            out.append(Expected(r, 'SYSTEM', 'ACL_INIT' if fn == 'aclInit' else 'ACL_FINI', None, RETURN,
                                {'device': 'N/A'}))
        elif fn == 'atb_execute':
            atb(rules, devices, r, out)
        elif fn in ('ms_alloc', 'ms_keep') and r['out']:
            out.append(Expected(r, 'MALLOC', 'MINDSPORE', r['out'], RETURN, {'size': r['size']},
                                check=ms_check(rules, devices, r)))
        elif fn in ('ms_free', 'ms_free_part', 'ms_free_kept'):
            # Of blocks that go together, those from before the attach are known at the end only.
            when = {'ms_free': ENTRY, 'ms_free_part': AROUND, 'ms_free_kept': RETURN}[fn]
            out.append(Expected(r, 'FREE', 'MINDSPORE', r['out'], when,
                                check=ms_check(rules, devices, r)))
        elif fn == 'ms_free_rest' and r['t0'] < rules.attached + 25 * NS_MS * (not rules.from_start):
            # Of a block that is cut: no block, but who has not seen the call's begin cannot know.
            out.append(Expected(r, 'FREE', 'MINDSPORE', r['out'], AROUND))
    for r in outermost(records, lambda r: LAUNCH.fullmatch(r['fn']) and r.get('ret', 1) == 0):
        launch(rules, devices, r, out, stream_ids, stubs)
    for r in outermost(records, lambda r: is_mark(r['fn'])):
        marks(rules, devices, r, out)
    ooms(rules, records, out)
    for e in out:
        if e.device is None:
            known = devices.at(e.record)
            e.device = str(known[0]) if known else 'N/A'
    return out


def ms_check(rules, devices, r):
    def check(row):
        if row['device'] not in (str(r['device']), 'N/A'):
            return f'device {row["device"]}, truth {r["device"]}'
        if rules.from_start and (row['used'], row['total']) != (r['used'], r['args'][2]):
            return f'used, total {row["used"]} {row["total"]}, truth {r["used"]} {r["args"][2]}'
        return None
    return check
