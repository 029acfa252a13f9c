// A process with MBeans of its own, for Jolokia's agent to show: Beans.java, with the agent as -javaagent.
//
// It says "ready" when its MBeans are there: two queues whose lengths and counts never change, and a third whose count cannot be
// read. It ends with its input.

import java.lang.management.ManagementFactory;
import javax.management.MBeanServer;
import javax.management.ObjectName;

public class Beans {
    public interface QueueMBean {
        int getLength();

        long getDone();

        boolean isOpen();

        String getOwner();
    }

    public static class Queue implements QueueMBean {
        private final int length;

        Queue(int length) {
            this.length = length;
        }

        public int getLength() {
            return length;
        }

        public long getDone() {
            if (length == 0) {
                throw new IllegalStateException("nobody counts");
            }
            return 1000L * length;
        }

        public boolean isOpen() {
            return length > 5;
        }

        public String getOwner() {
            return "nobody";
        }
    }

    public static void main(String[] arguments) throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        server.registerMBean(new Queue(7), new ObjectName("ogive.test:type=Queue,name=mail"));
        server.registerMBean(new Queue(3), new ObjectName("ogive.test:type=Queue,name=\"web,static\""));
        server.registerMBean(new Queue(0), new ObjectName("ogive.test:type=Broken,name=none"));
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
    }
}
