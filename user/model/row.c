// SPDX-License-Identifier: Apache-2.0
/* The words of the columns "Event" and "Event Type". */
#include "model/model.h"
#include "base/base.h"

static const char *const event_names[ROW_EVENT_MAX] = {
	[ROW_SYSTEM] = "SYSTEM",
	[ROW_MALLOC] = "MALLOC",
	[ROW_FREE] = "FREE",
	[ROW_ACCESS] = "ACCESS",
	[ROW_MSTX] = "MSTX",
	[ROW_OP_LAUNCH] = "OP_LAUNCH",
	[ROW_KERNEL_LAUNCH] = "KERNEL_LAUNCH",
	[ROW_OOM_DETAIL] = "OOM_DETAIL",
	[ROW_SNAPSHOT] = "SNAPSHOT",
};

static const char *const type_names[ROW_TYPE_MAX] = {
	[ROW_ACL_INIT] = "ACL_INIT",
	[ROW_ACL_FINI] = "ACL_FINI",
	[ROW_START_TRACE] = "START_TRACE",
	[ROW_STOP_TRACE] = "STOP_TRACE",
	[ROW_LOST] = "LOST",
	[ROW_HAL] = "HAL",
	[ROW_HOST] = "HOST",
	[ROW_HOST_PINNED] = "HOST_PINNED",
	[ROW_PTA] = "PTA",
	[ROW_PTA_WORKSPACE] = "PTA_WORKSPACE",
	[ROW_ATB] = "ATB",
	[ROW_MINDSPORE] = "MINDSPORE",
	[ROW_MARK] = "Mark",
	[ROW_RANGE_START] = "Range_start",
	[ROW_RANGE_END] = "Range_end",
	[ROW_KERNEL] = "KERNEL_LAUNCH",
	[ROW_OOM_TRIGGER] = "OOM_TRIGGER",
	[ROW_ATEN_START] = "ATEN_START",
	[ROW_ATEN_END] = "ATEN_END",
	[ROW_ATB_START] = "ATB_START",
	[ROW_ATB_END] = "ATB_END",
	[ROW_KERNEL_START] = "KERNEL_START",
	[ROW_KERNEL_END] = "KERNEL_END",
	[ROW_EXECUTE_START] = "KERNEL_EXECUTE_START",
	[ROW_EXECUTE_END] = "KERNEL_EXECUTE_END",
	[ROW_READ] = "READ",
	[ROW_WRITE] = "WRITE",
	[ROW_UNKNOWN] = "UNKNOWN",
	[ROW_STEP] = "STEP",
	[ROW_OOM_RECENT] = "OOM_RECENT_ALLOC",
	[ROW_OOM_TOP] = "OOM_TOP_ALLOC",
	[ROW_SNAP] = "SNAPSHOT",
};

const char *row_event__name(enum row_event e)
{
	return (unsigned int)e < ROW_EVENT_MAX && event_names[e] ? event_names[e] : "N/A";
}

const char *row_type__name(enum row_type t)
{
	return (unsigned int)t < ROW_TYPE_MAX && type_names[t] ? type_names[t] : "N/A";
}
